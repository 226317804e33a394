package verify

import (
	"errors"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/unweaver/unweaver/internal/artifact"
)

// readBatches reads a file's rows; a batch is valid until the next one.
func readBatches[T any](file *parquet.File) func(yield func([]T, error) bool) {
	return func(yield func([]T, error) bool) {
		reader, err := readerOf[T](file)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = reader.Close() }()
		buffer := make([]T, batchKeys)
		for {
			n, err := readRows(reader, buffer)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(nil, err)
				return
			}
			if n > 0 && !yield(buffer[:n], nil) {
				return
			}
			if err != nil {
				return
			}
		}
	}
}

// readerOf reads a file from its first row. Where the file is damaged so that the library panics, as it may in each of
// these steps, that is an error.
func readerOf[T any](file *parquet.File) (reader *parquet.GenericReader[T], err error) {
	err = artifact.GuardRead(func() error {
		reader = parquet.NewGenericReader[T](file)
		return nil
	})
	return reader, err
}

func readRows[T any](reader *parquet.GenericReader[T], rows []T) (n int, err error) {
	err = artifact.GuardRead(func() (err error) {
		n, err = reader.Read(rows)
		return err
	})
	return n, err
}

func seekRow[T any](reader *parquet.GenericReader[T], row int64) error {
	return artifact.GuardRead(func() error { return reader.SeekToRow(row) })
}
