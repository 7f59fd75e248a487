//! From errors of the engine to what a caller of `read` or `write` on a file is told.

use oxblock::Error;
use rustix::io::Errno;

/// The number for an error. It is the one that every front-end uses, where it means the same of a file; anything else would
/// tell a program to try again, or that its arguments make no sense, and is an I/O error.
pub fn of(error: &Error) -> Errno {
    match Errno::from_raw_os_error(error.errno()) {
        errno @ (Errno::INVAL
        | Errno::NOSPC
        | Errno::DQUOT
        | Errno::ROFS
        | Errno::FBIG
        | Errno::NOMEM
        | Errno::OPNOTSUPP) => errno,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use oxblock::ErrorKind;

    use super::*;

    #[test]
    fn what_a_file_says() {
        let own = |kind| of(&Error::new(kind, "x"));
        for (kind, errno) in [
            (ErrorKind::Checksum, Errno::IO),
            (ErrorKind::Corrupt, Errno::IO),
            (ErrorKind::Latched, Errno::IO),
            (ErrorKind::Io, Errno::IO),
            (ErrorKind::Closed, Errno::IO),
            (ErrorKind::Busy, Errno::IO),
            (ErrorKind::NoSpace, Errno::NOSPC),
            (ErrorKind::ReadOnly, Errno::ROFS),
            (ErrorKind::OutOfRange, Errno::INVAL),
        ] {
            assert_eq!(own(kind), errno, "{kind:?}");
        }
        let system = |errno: Errno| of(&Error::io("x", io::Error::from(errno)));
        assert_eq!(system(Errno::NOSPC), Errno::NOSPC);
        assert_eq!(system(Errno::DQUOT), Errno::DQUOT);
        for errno in [Errno::AGAIN, Errno::INTR, Errno::NODEV, Errno::FAULT] {
            assert_eq!(system(errno), Errno::IO, "{errno:?}");
        }
    }
}
