//! The structures, as they are on the wire. Names and order are the header's.
#![expect(missing_docs, reason = "the fields are documented by the kernel's header")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Declares structures of plain integers.
macro_rules! wire {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
        )]
        #[repr(C)]
        pub struct $name { $(pub $field: $type,)* }
    )*};
}

wire! {
    /// `fuse_in_header`: in front of every request.
    InHeader {
        len: u32,
        opcode: u32,
        unique: u64,
        nodeid: u64,
        uid: u32,
        gid: u32,
        pid: u32,
        total_extlen: u16,
        padding: u16,
    }
    /// `fuse_out_header`: in front of every reply.
    OutHeader {
        len: u32,
        error: i32,
        unique: u64,
    }
    /// `fuse_init_in`; kernels before 7.36 send the first four fields.
    InitIn {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
    }
    /// What `fuse_init_in` has behind that.
    InitInMore {
        flags2: u32,
        unused: [u32; 11],
    }
    /// `fuse_init_out`.
    InitOut {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
        max_background: u16,
        congestion_threshold: u16,
        max_write: u32,
        time_gran: u32,
        max_pages: u16,
        map_alignment: u16,
        flags2: u32,
        max_stack_depth: u32,
        unused: [u32; 6],
    }
    /// `fuse_attr`.
    AttrWire {
        ino: u64,
        size: u64,
        blocks: u64,
        atime: u64,
        mtime: u64,
        ctime: u64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        nlink: u32,
        uid: u32,
        gid: u32,
        rdev: u32,
        blksize: u32,
        flags: u32,
    }
    /// `fuse_attr_out`.
    AttrOut {
        attr_valid: u64,
        attr_valid_nsec: u32,
        dummy: u32,
        attr: AttrWire,
    }
    /// `fuse_entry_out`.
    EntryOut {
        nodeid: u64,
        generation: u64,
        entry_valid: u64,
        attr_valid: u64,
        entry_valid_nsec: u32,
        attr_valid_nsec: u32,
        attr: AttrWire,
    }
    /// `fuse_setattr_in`.
    SetAttrIn {
        valid: u32,
        padding: u32,
        fh: u64,
        size: u64,
        lock_owner: u64,
        atime: u64,
        mtime: u64,
        ctime: u64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        unused4: u32,
        uid: u32,
        gid: u32,
        unused5: u32,
    }
    /// `fuse_open_in`.
    OpenIn {
        flags: u32,
        open_flags: u32,
    }
    /// `fuse_open_out`.
    OpenOut {
        fh: u64,
        open_flags: u32,
        padding: u32,
    }
    /// `fuse_read_in`, also of `READDIR`.
    ReadIn {
        fh: u64,
        offset: u64,
        size: u32,
        read_flags: u32,
        lock_owner: u64,
        flags: u32,
        padding: u32,
    }
    /// `fuse_write_in`.
    WriteIn {
        fh: u64,
        offset: u64,
        size: u32,
        write_flags: u32,
        lock_owner: u64,
        flags: u32,
        padding: u32,
    }
    /// `fuse_write_out`.
    WriteOut {
        size: u32,
        padding: u32,
    }
    /// `fuse_kstatfs`, alone in `fuse_statfs_out`.
    StatfsOut {
        blocks: u64,
        bfree: u64,
        bavail: u64,
        files: u64,
        ffree: u64,
        bsize: u32,
        namelen: u32,
        frsize: u32,
        padding: u32,
        spare: [u32; 6],
    }
    /// `fuse_fallocate_in`.
    FallocateIn {
        fh: u64,
        offset: u64,
        length: u64,
        mode: u32,
        padding: u32,
    }
    /// `fuse_lseek_in`.
    LseekIn {
        fh: u64,
        offset: u64,
        whence: u32,
        padding: u32,
    }
    /// `fuse_lseek_out`.
    LseekOut {
        offset: u64,
    }
    /// `fuse_dirent`, without the name that follows.
    DirentHead {
        ino: u64,
        off: u64,
        namelen: u32,
        kind: u32,
    }
}
