//! fio.
