//! Saved programs and pullbacks: round trips, damage, files.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use cotan::io::{Kind, Saved, replace};
use cotan::kernels::Value;
use cotan::testing::{self, Rng};
use cotan::{Arg, Array, Aval, DType, Error, Program, Pullback, constant, ones_like, ops};
use num_complex::Complex;

use crate::common::{gradient, pullback};

const TEXT: &str = "\
program(%x: f64[3], %c: f64[3], %2: c64[2,1], %3: bool[2]) {
  %4: f64[3] = sin(%x)
  %5: f64[3] = mul(%4, %c)
  %6: f64[] = sum[axes=(0,)](%5)
  %7: f64[] = literal[dtype=f64, value=0.1]()
  %8: f64[] = mul(%6, %7)
  return %8 \"y\", %2, %3
}
";

fn sample() -> Saved {
    let c = Value::from_slice(&[3], &[1.0, -0.0, f64::NAN]).unwrap();
    let z = Value::from_slice(&[2, 1], &[Complex::new(1f32, 2.0), Complex::new(0.5, -0.0)]);
    let b = Value::from_slice(&[2], &[true, false]).unwrap();
    let program = Program::parse(TEXT).unwrap();
    Saved::new(Kind::Program, program, vec![c, z.unwrap(), b])
}

fn written(saved: &Saved) -> Vec<u8> {
    let mut bytes = Vec::new();
    saved.write(&mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> cotan::Result<Saved> {
    Saved::read(&mut &bytes[..])
}

/// A folder of its own, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("cotan-io-{}-{n}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let name = |e: fs::DirEntry| e.file_name().into_string().unwrap();
        entries.map(|e| name(e.unwrap())).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_written_is_read() {
    let saved = sample();
    let bytes = written(&saved);
    let again = read(&bytes).unwrap();
    assert_eq!(again.program, saved.program);
    assert_eq!(again.program.to_string(), TEXT);
    assert_eq!((again.kind, &again.writer), (Kind::Program, &saved.writer));
    for (a, b) in again.arrays.iter().zip(&saved.arrays) {
        assert!(a.same_bits(b));
    }
    // The same bytes again: nothing depends on addresses or hashes.
    assert_eq!(written(&again), bytes);
    // Arrays lie at multiples of 64 bytes.
    let pattern: Vec<u8> = [1.0f64, -0.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let at = bytes.windows(16).position(|w| w == pattern).unwrap();
    assert_eq!(at % 64, 0);
}

#[test]
fn values_keep_dtype_layout_and_identity() {
    let text = "program(%0: f64[2,3], %1: f64[2,3], %2: f64[100,3], %3: f64[0,7], %4: bf16[], %5: f16[2]) {\n  \
                return %0, %1, %2, %3, %4, %5\n}\n";
    let program = Program::parse(text).unwrap();
    let x = Value::from_slice(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let (x, row) = (
        x.transposed(&[1, 0]),
        Value::from_slice(&[3], &[7.0, 8.0, 9.0]).unwrap(),
    );
    let bf = Value::number(DType::Bf16, Complex::new(1.5, 0.0)).unwrap();
    let half = Value::number(DType::F16, Complex::new(-0.0, 0.0)).unwrap();
    let arrays = vec![
        x.clone(),
        x.clone(),
        row.broadcast_to(&[100, 3]),
        Value::empty(Aval::new(DType::F64, &[0, 7])).unwrap(),
        bf,
        half.broadcast_to(&[2]),
    ];
    let bytes = written(&Saved::new(Kind::Program, program, arrays.clone()));
    // A hundred repeated rows are one.
    assert!(bytes.len() < 1600, "{} bytes", bytes.len());
    let again = read(&bytes).unwrap().arrays;
    for (a, b) in again.iter().zip(&arrays) {
        assert_eq!(
            (a.aval(), a.strides(), a.stored()),
            (b.aval(), b.strides(), b.stored())
        );
    }
    assert_eq!(again[0].as_ptr(), again[1].as_ptr());
}

/// Every bit counts.
#[test]
fn a_flipped_bit_is_an_error() {
    let bytes = written(&sample());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let error = read(&damaged).map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::Saved(_)), "byte {at}: {error:?}");
        }
    }
}

#[test]
fn a_file_that_is_shorter_or_longer_is_an_error() {
    let bytes = written(&sample());
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "{length}");
    }
    for more in [1, 63, 64, 1000] {
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + more, 0);
        let error = read(&longer).unwrap_err().to_string();
        assert!(error.contains("continued"), "{error}");
    }
}

/// Writes checksums that fit, so that what is behind them is looked at.
fn seal(bytes: &mut [u8]) {
    let word = |b: &[u8], at: usize| u32::from_le_bytes(b[at..at + 4].try_into().unwrap());
    let long = |b: &[u8], at: usize| u64::from_le_bytes(b[at..at + 8].try_into().unwrap()) as usize;
    let put = |b: &mut [u8], at: usize, sum: u32| b[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    let lines = (word(bytes, 32) as usize).min((bytes.len() - 64) / 24);
    for line in (0..lines).map(|i| 64 + 24 * i) {
        let (offset, length) = (long(bytes, line + 8), long(bytes, line + 16));
        let end = offset.saturating_add(length);
        if let Some(section) = bytes.get(offset..end) {
            let sum = crc32fast::hash(section);
            put(bytes, line + 4, sum);
        }
    }
    let sum = crc32fast::hash(&bytes[64..64 + 24 * lines]);
    put(bytes, 36, sum);
    let sum = crc32fast::hash(&bytes[..60]);
    put(bytes, 60, sum);
}

/// Damage that the checksums do not show: an error, or a program that is well formed and runs.
#[test]
fn damage_under_fitting_checksums_never_panics() {
    let mut files = vec![written(&sample())];
    let f = |v: &[Array]| v[0].matmul(&v[1])?.tanh()?.max(1);
    let x = Array::from_slice(&[2, 3], &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).unwrap();
    let w = Array::from_slice(&[3, 2], &[0.5, -0.5, 1.0, 2.0, 3.0, 4.0]).unwrap();
    let (_, back) = pullback(f, &[Arg::from(&x), Arg::from(&w)]).unwrap();
    let mut bytes = Vec::new();
    back.write(&mut bytes).unwrap();
    files.push(bytes);
    for text in MANY {
        let program = Program::parse(text).unwrap();
        files.push(written(&Saved::new(Kind::Program, program, Vec::new())));
    }
    // Every primitive, with the parameters of its samples.
    for &prim in ops::table() {
        for sample in testing::samples(prim).iter().take(2) {
            let aval = |(shape, ..): &(Vec<usize>, f64, f64)| Aval::new(DType::F64, shape);
            let avals: Vec<Aval> = sample.inputs.iter().map(aval).collect();
            if let Ok(program) = testing::single(prim, &sample.params, &avals) {
                files.push(written(&Saved::new(Kind::Program, program, Vec::new())));
            }
        }
    }
    assert!(files.len() > 100);
    let mut rng = Rng::new(7);
    let (mut read_again, mut refused) = (0, 0);
    for round in 0..60_000 {
        let mut bytes = files[round % files.len()].clone();
        // Sections begin behind the header and the directory.
        for _ in 0..=rng.bits() % 3 {
            // Mostly in the program, which is the second section.
            let word = |at: usize| usize::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            let (from, length) = match rng.bits() % 4 {
                0 => (0, bytes.len()),
                _ => (word(96).min(bytes.len() - 1), word(104)),
            };
            let length = length.clamp(1, bytes.len() - from);
            let at = from + (rng.bits() % length as u64) as usize;
            bytes[at] = match rng.bits() % 5 {
                0 => 0,
                1 => 0xff,
                2 => bytes[at].wrapping_add(1),
                3 => bytes[at] ^ (1 << (rng.bits() % 8)),
                _ => b"0123456789(),-%tf"[(rng.bits() % 17) as usize],
            };
        }
        seal(&mut bytes);
        let Ok(saved) = read(&bytes) else {
            refused += 1;
            continue;
        };
        read_again += 1;
        saved.program.verify().unwrap();
        let small =
            (0..saved.program.num_vars()).all(|v| saved.program.aval(v as u32).size() < 1 << 16);
        if !small {
            continue;
        }
        let mut inputs = Vec::new();
        for i in 0..saved.program.num_inputs() - saved.arrays.len() {
            let aval = saved.program.aval(i as u32);
            inputs.push(Array::full(aval.dtype, &aval.shape, 1.0).unwrap());
        }
        inputs.extend(saved.arrays.iter().cloned().map(Array::constant));
        for out in saved.program.call(&inputs).unwrap() {
            let _ = out.evaluate();
        }
        let _ = Pullback::read(&mut &bytes[..]);
    }
    assert!(
        read_again > 3000 && refused > 3000,
        "{read_again} read, {refused} refused"
    );
}

/// Programs with parameters of many kinds.
const MANY: [&str; 6] = [
    "program(%0: f64[4,3]) {\n  %1: f64[3,4] = transpose[axes=(1, 0)](%0)\n  %2: f64[12] = reshape[shape=(12,)](%1)\n  \
     %3: f64[5] = slice[start=(1,), len=(5,), step=(2,)](%2)\n  return %3\n}\n",
    "program(%0: f64[4,3]) {\n  %1: f64[4,3] = cumsum[axis=0, reverse=true](%0)\n  return %1\n}\n",
    "program(%0: f64[4]) {\n  %1: f64[2,4] = broadcast[shape=(2, 4)](%0)\n  %2: f64[2,4] = flip[axes=(0, 1)](%1)\n  \
     return %2\n}\n",
    "program(%0: f64[4,2], %1: i64[3]) {\n  %2: f64[3,2] = gather(%0, %1)\n  return %2\n}\n",
    "program(%0: f64[4], %1: f64[2]) {\n  %2: f64[6] = concatenate[axis=0](%0, %1)\n  return %2\n}\n",
    "program(%0: f64[3]) {\n  %1: f64[7] = pad[shape=(7,), start=(0,), len=(3,), step=(2,)](%0)\n  return %1\n}\n",
];

#[test]
fn what_is_not_known_is_named() {
    let bytes = written(&sample());
    let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();

    let at = bytes.windows(3).position(|w| w == b"sin").unwrap();
    let mut other = bytes.clone();
    other[at..at + 3].copy_from_slice(b"sim");
    seal(&mut other);
    let message = error(&other);
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        message.contains("\"sim\"") && message.contains(version),
        "{message}"
    );

    let mut other = bytes.clone();
    other[8] = 2;
    seal(&mut other);
    assert!(
        error(&other).contains("version 2.0 of the format"),
        "{}",
        error(&other)
    );

    // A minor version is read.
    let mut other = bytes.clone();
    other[10] = 9;
    seal(&mut other);
    assert!(read(&other).is_ok());

    let mut other = bytes.clone();
    other[12..16].copy_from_slice(b"NEWS");
    seal(&mut other);
    assert!(error(&other).contains("NEWS"));

    assert!(error(b"PK\x03\x04").contains("does not begin like one"));
    let text: Vec<u8> = String::from_utf8_lossy(&bytes)
        .replace("\r\n", "\n")
        .into_bytes();
    assert!(read(&text).is_err());
    let mut other = bytes.clone();
    other.remove(6);
    assert!(error(&other).contains("line ends"));
}

#[test]
fn sections_that_are_not_known() {
    let (_, back) = pullback(|x| x[0].exp(), &[Arg::from(Array::from(1.0))]).unwrap();
    let mut bytes = Vec::new();
    back.write(&mut bytes).unwrap();
    let mut saved = read(&bytes).unwrap();
    saved.sections.push((*b"note", b"anything".to_vec()));
    assert!(Pullback::read(&mut &written(&saved)[..]).is_ok());
    saved.sections.push((*b"MUST", b"be understood".to_vec()));
    let error = Pullback::read(&mut &written(&saved)[..])
        .unwrap_err()
        .to_string();
    assert!(error.contains("MUST"), "{error}");
    saved.sections.pop();
    saved.sections.push(saved.sections[0].clone());
    assert!(
        read(&written(&saved))
            .unwrap_err()
            .to_string()
            .contains("two sections")
    );
}

#[test]
fn pullbacks_of_several_arguments() {
    let x = Array::from_slice(&[2, 2], &[0.1, 0.2, 0.3, 0.4]).unwrap();
    let c = Array::from_slice(&[2], &[3.0, 4.0]).unwrap();
    let f = |v: &[Array]| v[1].matmul(&v[0])?.mul(&v[2])?.sin();
    let args = [Arg::from(&x), constant(&c), Arg::from(Array::from(0.5))];
    let (y, back) = pullback(f, &args).unwrap();
    let mut bytes = Vec::new();
    back.write(&mut bytes).unwrap();
    let again = Pullback::read(&mut &bytes[..]).unwrap();
    assert_eq!(again.nbytes(), back.nbytes());
    let dy = ones_like(&y).unwrap();
    let (mine, theirs) = (back.apply(&dy).unwrap(), again.apply(&dy).unwrap());
    assert!(mine[1].is_none() && theirs[1].is_none());
    for (a, b) in mine.iter().flatten().zip(theirs.iter().flatten()) {
        assert_eq!(a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    }
    // What was saved can be narrowed, saved again, and differentiated.
    let narrow = again.wrt(&[true, true, false]);
    assert!(narrow.nbytes() < again.nbytes());
    let g = gradient(
        |v| again.apply(&v[0])?[2].as_ref().unwrap().sum(..),
        &[Arg::from(&dy)],
    );
    assert!(g.unwrap()[0].is_some());
    assert!(Pullback::read(&mut &written(&sample())[..]).is_err());
}

#[test]
fn rules_become_primitives_and_calls_are_refused() {
    let cube = |v: &[Array]| {
        let rule = |x: &[Array]| {
            let x = x[0].clone();
            let y = x.mul(&x)?.mul(&x)?;
            Ok((y, move |ct: &Array| {
                Ok(vec![Some(ct.mul(&x)?.mul(&x)?.mul(3.0)?)])
            }))
        };
        cotan::custom("cube", rule, &[&v[0]])
    };
    let (_, back) = pullback(cube, &[Arg::from(Array::from(2.0))]).unwrap();
    let mut bytes = Vec::new();
    back.write(&mut bytes).unwrap();
    let again = Pullback::read(&mut &bytes[..]).unwrap();
    let ct = again.apply(&Array::from(1.0)).unwrap().swap_remove(0);
    assert_eq!(ct.unwrap().item().unwrap(), 12.0);
    // A program would forget the rule, which is what it is there for.
    let (program, _) = cotan::trace(cube, &[&Array::from(2.0)]).unwrap();
    let error = Saved::new(Kind::Program, program, Vec::new()).write(&mut Vec::new());
    assert!(error.unwrap_err().to_string().contains("cube"));
}

#[test]
fn files_are_replaced_whole() {
    let folder = Folder::new();
    let path = folder.0.join("back.cotan");
    let saved = sample();
    saved.save(&path).unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(before, written(&saved));
    assert!(Saved::load(&path).is_ok());
    // A writer that fails leaves what was there, and nothing beside it.
    let error = replace(&path, |to| {
        to.write_all(b"half")?;
        Err(Error::Memory(1))
    });
    assert_eq!(error, Err(Error::Memory(1)));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(folder.names(), ["back.cotan"]);
    assert!(
        saved
            .save(&folder.0)
            .unwrap_err()
            .to_string()
            .contains("a directory")
    );
    assert!(
        Saved::load(&folder.0)
            .unwrap_err()
            .to_string()
            .contains("a directory")
    );
    assert!(Saved::load(&folder.0.join("absent")).is_err());
    assert!(saved.save(&folder.0.join("no/such/folder")).is_err());
    assert!(saved.save(std::path::Path::new("nul\0byte")).is_err());
}

#[cfg(unix)]
#[test]
fn links_stay_links_and_devices_are_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    let (path, link) = (folder.0.join("real"), folder.0.join("link"));
    let saved = sample();
    saved.save(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&path, &link).unwrap();
    saved.save(&link).unwrap();
    assert!(link.is_symlink());
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    fs::remove_file(&path).unwrap();
    assert!(saved.save(&link).unwrap_err().to_string().contains("link"));
    let error = saved
        .save(std::path::Path::new("/dev/null"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("a device"), "{error}");
    assert!(Saved::load(std::path::Path::new("/dev/zero")).is_err());
}

/// Files of earlier versions are read; what they compute is checked from Python.
#[test]
fn earlier_formats() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/saved");
    let mut read = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "cotan") {
            Saved::load(&path).unwrap().program.verify().unwrap();
            read += 1;
        }
    }
    assert!(read >= 3, "{read} files");
}

/// A product with the parameters of a number is no number.
#[test]
fn only_literals_have_values() {
    let text =
        "program(%0: f64[]) {\n  %1: f64[] = neg[dtype=f64, value=2.0](%0)\n  return %1\n}\n";
    let error = Program::parse(text).unwrap_err().to_string();
    assert!(error.contains("neg: the parameter value"), "{error}");
}
