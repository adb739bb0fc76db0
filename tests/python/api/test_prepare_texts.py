"""Prepared functions make texts of values where nobody reads them, and nowhere else."""

import logging

import pytest

import cotan as ct

log = logging.getLogger("test_prepare_texts")
log.setLevel(logging.WARNING)


def logs(x):
    logging.getLogger()  # a call beside those of the logger
    log.info(f"loss {x:.3f}")
    log.info("loss %s" % x)  # noqa: UP031
    log.debug("loss {}".format(x))  # noqa: UP032
    log.debug("at " + str(x) + ", " + repr(x))
    return x * x


def prepares_message(x):
    message = f"bad value {x:.3f}"
    if x < 0:
        raise ValueError(message)
    return x * x


def raises_at_once(x):
    if x < 0:
        raise ValueError(f"bad value {x:.3f}", str(x)) from None
    assert x < 10, f"too large: {x}"
    return x * x


@pytest.mark.parametrize("f", [logs, prepares_message, raises_at_once])
def test_texts_that_nobody_reads(f):
    g = ct.prepare(f, 2.0)
    assert [g(2.0), g(3.0)] == [(4.0,), (6.0,)]
    assert g.num_recordings == 1


@pytest.mark.parametrize("f", [prepares_message, raises_at_once])
def test_errors_are_those_of_the_function(f):
    with pytest.raises(ValueError, match=r"bad value -2\.000"):
        ct.prepare(f, -2.0)
    with pytest.raises(ValueError, match=r"bad value -1\.000"):
        ct.prepare(f, 2.0)(-1.0)


@pytest.mark.parametrize("f", [prepares_message, raises_at_once])
def test_messages_that_are_caught_are_refused(f):
    def catches(x):
        try:
            return f(x)
        except ValueError:
            return 2 * x

    g = ct.prepare(catches, 2.0)
    assert g(3.0) == (6.0,)
    with pytest.raises(TypeError, match="raised and caught"):
        ct.prepare(catches, -2.0)


def test_the_level_of_the_logger_is_guarded():
    g = ct.prepare(logs, 2.0)
    try:
        log.setLevel(logging.DEBUG)
        with pytest.raises(TypeError, match="prepare: "):
            g(2.0)
    finally:
        log.setLevel(logging.WARNING)
    assert g(2.0) == (4.0,)


def returned(x):
    return f"{x:.3f}"


def stored_in_a_list(x):
    return [f"{x:.3f}"]


@pytest.mark.parametrize(
    "read",
    [
        lambda x: float(f"{x:.1f}") * x,
        lambda x: float(returned(x)) * x,
        lambda x: float(stored_in_a_list(x)[0]) * x,
        lambda x: x if f"{x:.0f}" == "2" else 2 * x,
        lambda x: x * len(f"{x:.3f}"),
        lambda x: log.warning(f"{x}") or x,
        lambda x: print(f"{x}") or x,
        lambda x: {f"{x}": x}[str(x)],
    ],
)
def test_texts_that_are_read_are_refused(read):
    with pytest.raises(TypeError, match="prepare: "):
        ct.prepare(read, 2.0)
