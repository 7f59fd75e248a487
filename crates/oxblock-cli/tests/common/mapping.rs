//! Shared mappings of a file, for tests: another program has them, since mapping is unsafe here.

use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Once;

use super::arg;
use super::mount::has;

/// Maps what each line says, and unmaps it again: `w OFFSET LEN FLUSH`, followed by the bytes, or `r OFFSET LEN`.
const PROGRAM: &str = "
import mmap, sys
file = open(sys.argv[1], 'r+b')
commands, answers = sys.stdin.buffer, sys.stdout.buffer
while words := commands.readline().split():
    offset, length = int(words[1]), int(words[2])
    skip = offset % 4096
    with mmap.mmap(file.fileno(), skip + length, offset=offset - skip) as memory:
        if words[0] == b'w':
            memory[skip:] = commands.read(length)
            if words[3] == b'true':
                memory.flush()
            answers.write(b'.')
        else:
            answers.write(memory[skip:])
    answers.flush()
";

/// Who maps a file.
pub struct Mapping {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Mapping {
    /// Of a file that may be mapped; `None`, and a word about it, where nobody can do it.
    pub fn of(file: &Path) -> Option<Self> {
        if !has("python3") {
            return skipped("no python3 to map a file with");
        }
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", PROGRAM, arg(file)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, commands, answers })
    }

    /// The same for a file of a mount.
    pub fn of_mounted(file: &Path) -> Option<Self> {
        if !allowed_in_mounts() {
            return skipped("this kernel maps files with direct I/O only privately");
        }
        Self::of(file)
    }

    /// What is there. It must be within the file, as everywhere here.
    pub fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        writeln!(self.commands, "r {offset} {len}").unwrap();
        let mut found = vec![0; len];
        self.answers.read_exact(&mut found).unwrap();
        found
    }

    /// Writes; with `flush` it is waited for.
    pub fn write(&mut self, offset: u64, bytes: &[u8], flush: bool) {
        writeln!(self.commands, "w {offset} {} {flush}", bytes.len()).unwrap();
        self.commands.write_all(bytes).unwrap();
        self.answers.read_exact(&mut [0]).unwrap();
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Said once, however many files there are.
fn skipped(why: &str) -> Option<Mapping> {
    static SAID: Once = Once::new();
    SAID.call_once(|| println!("skipped: {why}"));
    None
}

/// From Linux 6.9 on.
fn allowed_in_mounts() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(9))
}
