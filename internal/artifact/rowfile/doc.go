// Package rowfile is the one file format of row segments, scratch files and packs: rows in zstd frames with a footer
// index.
//
//	file   = header frame* footer trailer
//	header = "UWROWS1\n"
//	frame  = zstd(row*), at most FrameBytes of rows before compression (a larger row has a frame of its own)
//	row    = uvarint length of key, key, uvarint length of value, value
//	footer = zstd(uvarint number of frames, then per frame: uvarint offset, size, raw size, rows, crc32c,
//	         length of first key, first key)
//	trailer= u64 footer offset, u32 footer size, u32 crc32c of the footer, u64 rows, "UWROWEND"  (little endian)
//
// Rows keep the order in which they were appended; files that are searched by key are written in key order.
// Everything streams: a writer holds one frame, a reader one frame and the footer. Equal rows give equal bytes, so
// that a file can be named by its content.
package rowfile
