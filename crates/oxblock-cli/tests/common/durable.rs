//! A writer that remembers what was flushed, for tests in which the server is killed.
//!
//! A kill loses what the server has in memory and has not written. What a power cut takes besides, written and not flushed, is
//! for the simulation.
//!
//! Only what was said to be flushed before the kill has to be there. Behind it the device fails everything, and a file system in
//! which a commit has failed may yet say that all is well to somebody who asks a moment later: it finds that the commit is over.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::Random;

/// Flushed files that are kept.
const KEPT: usize = 60;

/// Bytes of the log, beyond which it is begun anew.
const LOG: usize = 4 << 20;

/// A folder, and what must be in it, whatever happens.
pub struct Durable {
    folder: PathBuf,
    random: Random,
    /// Numbers files.
    next: u64,
    /// Files that were flushed, and not touched since.
    files: Vec<(PathBuf, Vec<u8>)>,
    /// What the file `current` may hold: what was flushed last, and what came after it, if anything did. At first it is not there.
    versions: Vec<Vec<u8>>,
    /// What was flushed of the file `log`.
    log: Vec<u8>,
}

impl Durable {
    /// A new folder.
    pub fn new(folder: &Path, seed: u64) -> Self {
        fs::create_dir(folder).unwrap();
        File::open(folder.parent().unwrap()).unwrap().sync_all().unwrap();
        File::open(folder).unwrap().sync_all().unwrap();
        let (files, versions, log) = (Vec::new(), vec![Vec::new()], Vec::new());
        Self { folder: folder.to_owned(), random: Random(seed), next: 0, files, versions, log }
    }

    /// Writes until that fails, which it must not before `killed` is set; how often it flushed.
    pub fn write_on(&mut self, killed: &AtomicBool) -> u64 {
        let mut flushed = 0;
        loop {
            match self.step(killed) {
                Ok(flushes) => flushed += flushes,
                Err(_) if killed.load(Ordering::SeqCst) => return flushed,
                Err(error) => panic!("{error}, and the server was not killed"),
            }
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = self.random.below(200_000) >> self.random.below(8);
        self.random.bytes(usize::try_from(len).unwrap())
    }

    /// How many flushes there were.
    fn step(&mut self, killed: &AtomicBool) -> Result<u64> {
        let bytes = self.bytes();
        match self.random.below(6) {
            // What nobody waits for is written in between.
            0 => {
                let name = self.folder.join(format!("unsafe-{}", self.random.below(20)));
                fs::write(name, bytes).map(|()| 0)
            }
            1 => self.replace(bytes, killed),
            2 | 3 => self.append(&bytes, killed),
            _ => self.create(bytes, killed),
        }
    }

    fn replace(&mut self, bytes: Vec<u8>, killed: &AtomicBool) -> Result<u64> {
        let (new, current) = (self.folder.join("new"), self.folder.join("current"));
        write_flushed(&new, &bytes)?;
        self.versions.push(bytes);
        fs::rename(new, current)?;
        File::open(&self.folder)?.sync_all()?;
        believed(killed)?;
        self.versions.drain(..self.versions.len() - 1);
        Ok(2)
    }

    fn append(&mut self, bytes: &[u8], killed: &AtomicBool) -> Result<u64> {
        let name = self.folder.join("log");
        if self.log.len() > LOG {
            self.log.clear();
            File::create(&name)?;
        }
        let mut file = OpenOptions::new().append(true).create(true).open(name)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        believed(killed)?;
        self.log.extend(bytes);
        Ok(1)
    }

    fn create(&mut self, bytes: Vec<u8>, killed: &AtomicBool) -> Result<u64> {
        self.next += 1;
        let name = self.folder.join(format!("flushed-{}", self.next));
        write_flushed(&name, &bytes)?;
        believed(killed)?;
        self.files.push((name, bytes));
        if self.files.len() > KEPT {
            let at = self.random.below(KEPT as u64);
            let (name, _) = self.files.swap_remove(usize::try_from(at).unwrap());
            fs::remove_file(name)?;
        }
        Ok(1)
    }

    /// Everything that was flushed is there.
    pub fn compare(&mut self) {
        for (name, bytes) in &self.files {
            expect(name, &fs::read(name).unwrap(), bytes);
        }
        let name = self.folder.join("current");
        let found = read(&name);
        if !self.versions.contains(&found) {
            expect(&name, &found, &self.versions[0]);
        }
        self.versions = vec![found];
        let name = self.folder.join("log");
        let found = read(&name);
        expect(&name, found.get(..self.log.len()).unwrap_or(&found), &self.log);
        // What came into it without a flush stays.
        self.log = found;
    }
}

/// What was just said to be flushed was said before the kill.
fn believed(killed: &AtomicBool) -> Result<()> {
    if killed.load(Ordering::SeqCst) { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
}

/// A file, which may not be there yet.
fn read(name: &Path) -> Vec<u8> {
    match fs::read(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        found => found.unwrap(),
    }
}

fn expect(name: &Path, found: &[u8], flushed: &[u8]) {
    let same = found.iter().zip(flushed).take_while(|(found, flushed)| found == flushed).count();
    let (found, flushed) = (found.len(), flushed.len());
    assert!(
        found == flushed && same == found,
        "{name:?} has {found} bytes, of the {flushed} that were flushed the first {same}"
    );
}

fn write_flushed(name: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::create(name)?;
    file.write_all(bytes)?;
    file.sync_all()
}
