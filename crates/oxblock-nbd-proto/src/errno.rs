//! The errors that the protocol knows. Their numbers are its own, though most systems have the same ones.

/// `NBD_E*`: how a request of the transmission phase failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Errno {
    /// The export is read-only (`NBD_EPERM`).
    Perm,
    /// The device failed, or a block does not verify (`NBD_EIO`).
    Io,
    /// No memory (`NBD_ENOMEM`); avoided.
    NoMem,
    /// The request makes no sense (`NBD_EINVAL`).
    Invalid,
    /// No space, or a write beyond the end (`NBD_ENOSPC`).
    NoSpace,
    /// Too large to be sent in one piece (`NBD_EOVERFLOW`).
    Overflow,
    /// Not to be had fast (`NBD_ENOTSUP`).
    NotSupported,
    /// The server is shutting down (`NBD_ESHUTDOWN`).
    Shutdown,
}

impl Errno {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Perm,
        Self::Io,
        Self::NoMem,
        Self::Invalid,
        Self::NoSpace,
        Self::Overflow,
        Self::NotSupported,
        Self::Shutdown,
    ];

    /// The number that is sent.
    pub fn number(self) -> u32 {
        match self {
            Self::Perm => 1,
            Self::Io => 5,
            Self::NoMem => 12,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::NotSupported => 95,
            Self::Shutdown => 108,
        }
    }

    /// The error of a received number. One that the protocol does not know counts as [`Invalid`](Self::Invalid).
    pub fn of_number(number: u32) -> Self {
        Self::ALL.into_iter().find(|errno| errno.number() == number).unwrap_or(Self::Invalid)
    }

    /// The error for an errno of Linux, for a request that made sense. `EOVERFLOW` and `ENOTSUP` have a meaning of their own
    /// in the protocol, and are not passed on.
    pub fn of_system(errno: i32) -> Self {
        match errno {
            // EPERM, EACCES, EROFS
            1 | 13 | 30 => Self::Perm,
            // ENOMEM
            12 => Self::NoMem,
            // EINVAL
            22 => Self::Invalid,
            // EFBIG, ENOSPC, EDQUOT
            27 | 28 | 122 => Self::NoSpace,
            // ESHUTDOWN
            108 => Self::Shutdown,
            _ => Self::Io,
        }
    }
}
