package dir

import "os"

// dataSync makes the bytes of a file and its length durable.
func dataSync(file *os.File) error { return file.Sync() }
