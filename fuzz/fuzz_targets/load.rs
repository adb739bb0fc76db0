//! Saved files: what is accepted can be printed, saved again, and is then the same program.
#![no_main]

use cotan::io::Saved;
use libfuzzer_sys::{Corpus, fuzz_target};

const HEADER: usize = 64;
const ENTRY: usize = 24;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Makes length and checksums right, as docs/design/saved-files.md has them: no input that is found
/// by changing bytes would get past them.
fn repair(bytes: &mut [u8]) -> Option<()> {
    let length = bytes.len() as u64;
    bytes.get_mut(16..24)?.copy_from_slice(&length.to_le_bytes());
    let count = u32::from_le_bytes(number(bytes, 32)?) as usize;
    for k in 0..count.min(bytes.len() / ENTRY) {
        let at = HEADER + ENTRY * k;
        let offset = u64::from_le_bytes(number(bytes, at + 8)?) as usize;
        let length = u64::from_le_bytes(number(bytes, at + 16)?) as usize;
        let end = offset.checked_add(length)?;
        let Some(section) = bytes.get(offset..end) else {
            continue;
        };
        let sum = crc32fast::hash(section);
        bytes[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
    }
    let end = HEADER.checked_add(ENTRY.checked_mul(count)?)?;
    let directory = crc32fast::hash(bytes.get(HEADER..end)?);
    bytes[36..40].copy_from_slice(&directory.to_le_bytes());
    let header = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&header.to_le_bytes());
    Some(())
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let mut bytes = data.to_vec();
    let _ = repair(&mut bytes);
    let Ok(saved) = Saved::read(&mut bytes.as_slice()) else {
        return Corpus::Keep;
    };
    let text = saved.program.to_string();
    let mut again = Vec::new();
    saved.write(&mut again).expect("what was read can be written");
    let read = Saved::read(&mut again.as_slice()).expect("what was written can be read");
    assert_eq!(text, read.program.to_string());
    assert_eq!(saved.arrays.len(), read.arrays.len());
    Corpus::Keep
});
