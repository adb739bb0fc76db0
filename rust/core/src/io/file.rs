//! Files that are whole or not there: written beside their place and renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Saved;
use crate::error::{Error, Result};

/// Replaces a file by what `write` writes, all of it or, when something fails, nothing: the old file stays
/// whole. What is there already must be a regular file, or a link to one, which stays a link.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let target = target(path)?;
    let old = match fs::metadata(&target) {
        Ok(old) => {
            regular(path, &old)?;
            Some(old)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let (file, beside) = create(folder)?;
    // Gone when it is dropped, unless it has been renamed by then.
    let mut beside = Temporary(Some(beside));
    let mut buffered = BufWriter::with_capacity(64 << 10, file);
    write(&mut buffered)?;
    let file = buffered
        .into_inner()
        .map_err(|e| Error::from(e.into_error()))?;
    if let Some(old) = old {
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()?;
    drop(file);
    if let Some(name) = &beside.0 {
        fs::rename(name, &target)?;
    }
    beside.0 = None;
    // So that the name survives a crash, too. Where folders cannot be synchronised, nothing is lost.
    #[cfg(unix)]
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Where a path leads in the end.
fn target(path: &Path) -> Result<PathBuf> {
    if !path.is_symlink() {
        return Ok(path.into());
    }
    fs::canonicalize(path).map_err(|error| {
        if error.kind() == ErrorKind::NotFound {
            let message = format!(
                "{} is a link to something that is not there",
                path.display()
            );
            return Error::Saved(message);
        }
        error.into()
    })
}

/// Refuses what is not a regular file.
fn regular(path: &Path, found: &fs::Metadata) -> Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let what = if found.is_dir() {
        "a directory"
    } else {
        "a device, a pipe or a socket"
    };
    let path = path.display();
    Err(Error::Saved(format!(
        "{path} is {what}, not a regular file"
    )))
}

/// A new file in a folder.
fn create(folder: &Path) -> Result<(File, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".cotan-{}-{n}.tmp", process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            // Left by a process of the same number that was killed.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A file that is removed when this is dropped.
struct Temporary(Option<PathBuf>);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

impl Saved {
    /// Writes it to a file: beside it first, which then takes its place, so that a crash or a full disk
    /// leaves the old file whole. Refuses to replace what is not a regular file.
    pub fn save(&self, path: &Path) -> Result<()> {
        replace(path, |to| self.write(to))
    }

    /// Reads it from a regular file.
    pub fn load(path: &Path) -> Result<Saved> {
        // Asked for before it is opened: opening a pipe waits for somebody who writes to it.
        regular(path, &fs::metadata(path)?)?;
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        Saved::read_sized(&mut file, length)
    }
}
