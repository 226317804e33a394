// Package files is the embedded adapter of the vectors port. A collection is a folder of immutable parts, each one file
// that is mapped into memory:
//
//	part = "UWVEC2\0\0" u32 dim u32 rows, keys (u32 end offsets, bytes; sorted), padding, f32 scales, padding, int8 rows,
//	       padding, u32 crc32c of each f32 row, u32 crc32c of "collection/name of the part", padding, f32 rows,
//	       u32 crc32c of all before the f32 rows
//	signs = "UWSIGN1\0" u32 dim, rows, checksum of the part, measures; padding, f32 factors, padding, signs, u32 crc32c;
//	       beside a large part: its index, which is made from it
//	columns = "UWCOLS1\0" u32 dim, rows, checksum of the part, measures; padding, f32 levels, stripes, u32 crc32c;
//	       in place of signs, where few numbers of a row say most of it
//	dead = "UWDEAD1\0" u32 numbers of deleted rows, u32 crc32c; beside the part of the same number, where it has some
//
// A search scans the int8 rows (a quarter of the bytes), knows by how much the score of each may differ from what the
// codes tell, and scores all that may be among the best with the float32 rows: it is exact. In a part with an index it
// looks only at the codes of the rows that are best by their signs (an eighth of those bytes) or by the columns that
// count in the question, so many that the index was measured to find 99.5 % of the best. Parts are written to a
// temporary file, synced and renamed; parts that pile up are merged.
package files
