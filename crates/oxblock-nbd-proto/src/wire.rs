//! Every number of the protocol that is used here, with the protocol's own name for it. All are sent in network byte order.

/// First magic of the server's greeting (`NBDMAGIC`).
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second magic of the greeting, and of every option (`IHAVEOPT`).
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Magic of a reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// `NBD_REQUEST_MAGIC`.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// `NBD_EXTENDED_REQUEST_MAGIC`.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// `NBD_SIMPLE_REPLY_MAGIC`.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// `NBD_STRUCTURED_REPLY_MAGIC`.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// `NBD_EXTENDED_REPLY_MAGIC`.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// `NBD_FLAG_FIXED_NEWSTYLE`, of the server's handshake flags and of the client's.
pub const FIXED_NEWSTYLE: u16 = 1 << 0;
/// `NBD_FLAG_NO_ZEROES`, likewise.
pub const NO_ZEROES: u16 = 1 << 1;
/// Zeroes behind the answer to `NBD_OPT_EXPORT_NAME`, unless both sides set [`NO_ZEROES`].
pub const EXPORT_NAME_ZEROES: usize = 124;

/// `NBD_FLAG_*`: transmission flags, what an export can do.
pub mod transmission {
    /// `NBD_FLAG_HAS_FLAGS`.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// `NBD_FLAG_READ_ONLY`.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `NBD_FLAG_SEND_FLUSH`.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// `NBD_FLAG_SEND_FUA`.
    pub const SEND_FUA: u16 = 1 << 3;
    /// `NBD_FLAG_ROTATIONAL`.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// `NBD_FLAG_SEND_TRIM`.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `NBD_FLAG_SEND_WRITE_ZEROES`.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// `NBD_FLAG_SEND_DF`.
    pub const SEND_DF: u16 = 1 << 7;
    /// `NBD_FLAG_CAN_MULTI_CONN`.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `NBD_FLAG_SEND_CACHE`.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// `NBD_FLAG_SEND_FAST_ZERO`.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// `NBD_OPT_*`: what a client asks during the handshake.
pub mod option {
    /// `NBD_OPT_EXPORT_NAME`.
    pub const EXPORT_NAME: u32 = 1;
    /// `NBD_OPT_ABORT`.
    pub const ABORT: u32 = 2;
    /// `NBD_OPT_LIST`.
    pub const LIST: u32 = 3;
    /// `NBD_OPT_STARTTLS`.
    pub const STARTTLS: u32 = 5;
    /// `NBD_OPT_INFO`.
    pub const INFO: u32 = 6;
    /// `NBD_OPT_GO`.
    pub const GO: u32 = 7;
    /// `NBD_OPT_STRUCTURED_REPLY`.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// `NBD_OPT_LIST_META_CONTEXT`.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// `NBD_OPT_SET_META_CONTEXT`.
    pub const SET_META_CONTEXT: u32 = 10;
    /// `NBD_OPT_EXTENDED_HEADERS`.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// `NBD_REP_*`: answers to options that are no errors.
pub mod option_reply {
    /// `NBD_REP_ACK`.
    pub const ACK: u32 = 1;
    /// `NBD_REP_SERVER`.
    pub const SERVER: u32 = 2;
    /// `NBD_REP_INFO`.
    pub const INFO: u32 = 3;
    /// `NBD_REP_META_CONTEXT`.
    pub const META_CONTEXT: u32 = 4;
    /// Set in every error (`NBD_REP_ERR_*`).
    pub const ERROR: u32 = 1 << 31;
}

/// `NBD_INFO_*`: what can be said of an export.
pub mod info {
    /// `NBD_INFO_EXPORT`.
    pub const EXPORT: u16 = 0;
    /// `NBD_INFO_NAME`.
    pub const NAME: u16 = 1;
    /// `NBD_INFO_DESCRIPTION`.
    pub const DESCRIPTION: u16 = 2;
    /// `NBD_INFO_BLOCK_SIZE`.
    pub const BLOCK_SIZE: u16 = 3;
}

/// `NBD_CMD_*`: what a client asks in the transmission phase.
pub mod command {
    /// `NBD_CMD_READ`.
    pub const READ: u16 = 0;
    /// `NBD_CMD_WRITE`.
    pub const WRITE: u16 = 1;
    /// `NBD_CMD_DISC`.
    pub const DISC: u16 = 2;
    /// `NBD_CMD_FLUSH`.
    pub const FLUSH: u16 = 3;
    /// `NBD_CMD_TRIM`.
    pub const TRIM: u16 = 4;
    /// `NBD_CMD_CACHE`.
    pub const CACHE: u16 = 5;
    /// `NBD_CMD_WRITE_ZEROES`.
    pub const WRITE_ZEROES: u16 = 6;
    /// `NBD_CMD_BLOCK_STATUS`.
    pub const BLOCK_STATUS: u16 = 7;
}

/// `NBD_CMD_FLAG_*`: how it is to be done.
pub mod command_flag {
    /// `NBD_CMD_FLAG_FUA`.
    pub const FUA: u16 = 1 << 0;
    /// `NBD_CMD_FLAG_NO_HOLE`.
    pub const NO_HOLE: u16 = 1 << 1;
    /// `NBD_CMD_FLAG_DF`.
    pub const DF: u16 = 1 << 2;
    /// `NBD_CMD_FLAG_REQ_ONE`.
    pub const REQ_ONE: u16 = 1 << 3;
    /// `NBD_CMD_FLAG_FAST_ZERO`.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// `NBD_CMD_FLAG_PAYLOAD_LEN`.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// `NBD_REPLY_FLAG_DONE`.
pub const REPLY_DONE: u16 = 1 << 0;

/// `NBD_REPLY_TYPE_*`: chunks of structured and extended replies.
pub mod chunk {
    /// `NBD_REPLY_TYPE_NONE`.
    pub const NONE: u16 = 0;
    /// `NBD_REPLY_TYPE_OFFSET_DATA`.
    pub const OFFSET_DATA: u16 = 1;
    /// `NBD_REPLY_TYPE_OFFSET_HOLE`.
    pub const OFFSET_HOLE: u16 = 2;
    /// `NBD_REPLY_TYPE_BLOCK_STATUS`.
    pub const BLOCK_STATUS: u16 = 5;
    /// `NBD_REPLY_TYPE_BLOCK_STATUS_EXT`.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// `NBD_REPLY_TYPE_ERROR`.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// `NBD_REPLY_TYPE_ERROR_OFFSET`.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// The metadata context that is known here.
pub const ALLOCATION: &str = "base:allocation";
/// Its namespace alone, which is a wildcard in `NBD_OPT_LIST_META_CONTEXT`.
pub const BASE: &str = "base:";
/// The identifier that [`ALLOCATION`] gets when it is selected; any number would do.
pub const ALLOCATION_ID: u32 = 1;
/// `NBD_STATE_HOLE` of [`ALLOCATION`].
pub const STATE_HOLE: u32 = 1 << 0;
/// `NBD_STATE_ZERO` of [`ALLOCATION`].
pub const STATE_ZERO: u32 = 1 << 1;
