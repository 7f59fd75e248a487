//! What a request asks for.

/// Declares the operations with their numbers.
macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The operations that are known. Numbers and names are those of `enum fuse_opcode`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[expect(missing_docs, reason = "the kernel's names")]
        pub enum Opcode { $($(#[$doc])* $name = $number,)* }

        impl Opcode {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The operation of a number.
            pub fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its number.
            pub fn number(self) -> u32 {
                self as u32
            }
        }
    };
}

opcodes! {
    Lookup = 1,
    /// Gets no reply.
    Forget = 2,
    Getattr = 3,
    Setattr = 4,
    Readlink = 5,
    Symlink = 6,
    Mknod = 8,
    Mkdir = 9,
    Unlink = 10,
    Rmdir = 11,
    Rename = 12,
    Link = 13,
    Open = 14,
    Read = 15,
    Write = 16,
    Statfs = 17,
    Release = 18,
    Fsync = 20,
    Setxattr = 21,
    Getxattr = 22,
    Listxattr = 23,
    Removexattr = 24,
    Flush = 25,
    Init = 26,
    Opendir = 27,
    Readdir = 28,
    Releasedir = 29,
    Fsyncdir = 30,
    Access = 34,
    Create = 35,
    Interrupt = 36,
    Destroy = 38,
    Ioctl = 39,
    /// Gets no reply.
    BatchForget = 42,
    Fallocate = 43,
    Rename2 = 45,
    Lseek = 46,
    Tmpfile = 51,
}

impl Opcode {
    /// Whether the kernel waits for a reply.
    pub fn is_answered(self) -> bool {
        !matches!(self, Self::Forget | Self::BatchForget)
    }
}
