"""Devices that fail, and programs that end: an error for each, and the next run works.

A machine without a driver for a GPU skips all of it.
"""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from gpu_cases import GPU, needs_gpu

import cotan as ct

pytestmark = needs_gpu


class TestFailures:
    def test_more_elements_than_a_kernel_counts(self):
        x = ct.array(np.ones((1 << 16, 1), np.float32), device="gpu")
        with pytest.raises(RuntimeError, match=r"gpu:0: .*elements are too large for a kernel"):
            (x + x.T).force()
        assert float(np.sum(x + 1)) == 2 << 16

    def test_more_bytes_than_a_buffer_has(self):
        most = 1 << 15
        x = ct.array(np.ones((most, 1), np.float32), device="gpu")
        try:
            (x + x.T).force()
        except (RuntimeError, MemoryError) as error:
            assert "gpu:0" in str(error) or "memory" in str(error)
        else:
            assert GPU.memory[0] >= 4 * most * most
        assert float(np.sum(x + 1)) == 2 * most
        GPU.release()

    def test_the_driver_has_no_memory(self):
        if sys.platform != "linux" or "llvmpipe" not in GPU.description:
            pytest.skip("only the memory of a software driver can be limited from here")
        code = """
            import re, resource, numpy as np, cotan as ct
            gpu = ct.device("gpu")
            x = ct.array(np.ones((1 << 14, 1), np.float32), device="gpu")
            assert float(np.sum(x + 1)) == 2 << 14
            used = int(re.search(r"VmSize:(.*)kB", open("/proc/self/status").read())[1]) << 10
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), most))
            y, kept = x[: 1 << 12], []
            for _ in range(3):
                try:
                    for _ in range(16):
                        kept.append((y + y.T).force())  # 64 MiB
                except MemoryError:
                    assert 0 < len(kept) < 8
                else:
                    raise AssertionError("there was memory")
                assert float(np.sum(x + 1)) == 2 << 14
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            kept.append((y + y.T).force())
            assert all(float(np.sum(z)) == 2 << 24 for z in kept)
        """
        _runs(code)

    def test_an_interrupt(self):
        code = """
            import os, signal, threading, time, numpy as np, cotan as ct
            x = ct.array(np.full((300, 300), 1 / 300, np.float32), device="gpu")
            f = ct.prepare(lambda x: (x @ x) @ (x @ x), transform="value")
            f(x).force()
            # Where the tests run in the background, interrupts are ignored.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                end = time.time() + 60
                while time.time() < end:
                    x = f(x)
                    np.asarray(x)
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError("it was not interrupted")
            ones = ct.array(np.ones((2, 2), np.float32), device="gpu")
            assert np.allclose(np.asarray(f(ones)), 8)
        """
        _runs(code)

    def test_a_limit(self):
        x = ct.array(np.zeros(1000, np.float32), device="gpu")
        GPU.set_memory_limit(GPU.memory[0] + 100_000)
        try:
            with pytest.raises(MemoryError):
                ct.array(np.zeros(1_000_000, np.float32), device="gpu")
        finally:
            GPU.set_memory_limit(None)
        assert float(np.sum(x + 1)) == 1000.0

    def test_a_lost_device(self):
        code = """
            import numpy as np, cotan as ct
            x = ct.array(np.ones(10, np.float32), device="gpu")
            y = x * 2
            ct.device("gpu")._lose()
            for read in (lambda: np.asarray(x), lambda: np.asarray(y), lambda: y.force()):
                try:
                    read()
                except RuntimeError as error:
                    assert "lost" in str(error), error
                else:
                    raise AssertionError("it was not lost")
            z = ct.array(np.ones(10, np.float32), device="gpu")
            assert float(np.sum(z * 3)) == 30.0
        """
        _runs(code)

    def test_a_forked_process_is_refused(self):
        code = """
            import os, numpy as np, cotan as ct
            x = ct.array(np.ones(10, np.float32), device="gpu")
            (x + 1).force()
            pid = os.fork()
            if pid == 0:
                ok = 1
                try:
                    np.asarray(x + 2)
                except RuntimeError as error:
                    ok = 0 if "forked" in str(error) else 2
                if float(np.sum(ct.array(np.ones(3)) * 2)) != 6.0:
                    ok = 3
                del x
                os._exit(ok)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            assert float(np.sum(x)) == 10.0
        """
        _runs(code)

    def test_exit_while_work_is_under_way(self):
        code = """
            import numpy as np, cotan as ct
            x = ct.array(np.ones((512, 512), np.float32), device="gpu")
            for _ in range(8):
                x = x @ x * np.float32(1e-3)
                x.force()
        """
        _runs(code)

    def test_a_limit_in_the_middle_of_a_run(self):
        x = ct.array(np.ones((256, 256), np.float32), device="gpu")

        def f(x):
            return np.sum(np.sort(x @ x, axis=0) @ x)

        GPU.release()
        before = GPU.memory[0]
        GPU.set_memory_limit(before + 600_000)
        try:
            for _ in range(3):
                with pytest.raises(MemoryError):
                    np.asarray(f(x))
                assert GPU.memory[0] == before
        finally:
            GPU.set_memory_limit(None)
        assert float(f(x)) == pytest.approx(256.0**4, rel=1e-5)

    def test_what_was_kept_makes_room(self):
        GPU.release()
        GPU.set_memory_limit(GPU.memory[0] + 1_200_000)
        try:
            for n in [200_000, 250_000, 150_000, 290_000]:
                assert float(np.sum(ct.array(np.ones(n, np.float32), device="gpu"))) == n
        finally:
            GPU.set_memory_limit(None)

    def test_more_arrays_than_a_kernel_binds(self):
        xs = [np.full((5, 3), k, np.float32) for k in range(150)]
        there = ct.to_device(xs, "gpu")
        assert np.array_equal(np.asarray(sum(there)), sum(xs))
        grads = ct.gradient(lambda *xs: np.sum(np.stack(xs) ** 2), *there)
        assert all(np.array_equal(np.asarray(g), 2 * x) for g, x in zip(grads, xs, strict=True))

    def test_a_kernel_of_many_operations(self):
        x = np.linspace(-1, 1, 50, dtype=np.float32)

        def f(x):
            y = x
            for k in range(700):
                y = y * np.float32(0.5) + np.float32(k)
            return y

        assert np.allclose(np.asarray(f(ct.array(x, device="gpu"))), f(x), rtol=1e-5)

    def test_an_interrupt_of_a_long_run(self):
        code = """
            import os, signal, threading, time, numpy as np, cotan as ct

            def f(x):
                for _ in range(4000):
                    x = np.sort(x @ x, axis=0) / 8
                return x

            x = ct.array(np.ones((8, 8), np.float32), device="gpu")
            g = ct.prepare(f, transform="value")
            # Where the tests run in the background, interrupts are ignored.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                end = time.time() + 100
                while time.time() < end:
                    np.asarray(g(x))
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError("it was not interrupted")
            assert np.allclose(np.asarray(x @ x), 8)
            assert np.allclose(np.asarray(g(x)), 1)
        """
        _runs(code)

    def test_a_device_that_is_lost_while_threads_use_it(self):
        code = """
            import threading, time, numpy as np, cotan as ct
            gpu, other, done = ct.device("gpu"), [], []

            def work(k):
                for _ in range(40):
                    try:
                        x = ct.array(np.full((64, 64), 1, np.float32), device="gpu")
                        for _ in range(5):
                            x = (x @ x / 64).force()
                        assert float(np.sum(x)) == 64 * 64
                        done.append(k)
                    except RuntimeError as error:
                        if "lost" not in str(error):
                            other.append(error)
                    except Exception as error:
                        other.append(error)

            threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(4):
                time.sleep(0.3)
                gpu._lose()
            for thread in threads:
                thread.join()
            assert not other, other
            x = ct.array(np.ones(10, np.float32), device="gpu")
            assert float(np.sum(x * 3)) == 30.0
            assert gpu.memory[0] < 1 << 20
        """
        _runs(code)

    def test_exit_with_threads_at_work(self):
        code = """
            import threading, time, numpy as np, cotan as ct

            def work():
                x = ct.array(np.ones((128, 128), np.float32), device="gpu")
                while True:
                    x = x @ x / 128
                    x.force()

            for _ in range(3):
                threading.Thread(target=work, daemon=True).start()
            time.sleep(1)
        """
        _runs(code)

    def test_spawned_processes_use_it(self):
        code = """
            import multiprocessing, numpy as np, cotan as ct
            x = ct.array(np.ones(10, np.float32), device="gpu")
            assert float(np.sum(x)) == 10
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                y = pool.apply(np.add, (x, 1))
            assert np.array_equal(np.asarray(y), np.full(10, 2))
        """
        _runs(code)

    def test_threads(self):
        results = []

        def work(k):
            x = ct.array(np.full(1000, k, np.float32), device="gpu")
            for _ in range(20):
                x = x * 1 + 1
                x.force()
            results.append(float(np.asarray(x)[0]) - k)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [20.0] * 6


def _runs(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
