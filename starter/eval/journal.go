package eval

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Journal keeps every answer that was paid for, so that an evaluation which is begun again asks for the others alone.
// Nil keeps nothing.
type Journal struct {
	mu    sync.Mutex
	file  *os.File
	known map[string]json.RawMessage
}

type journalLine struct {
	About string          `json:"about,omitempty"` // of the first line
	Key   string          `json:"key,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// OpenJournal opens the journal of a folder, or begins it. about names what all answers depend on; a journal about
// something else is refused.
func OpenJournal(dir, about string) (*Journal, error) {
	path := filepath.Join(dir, "answers.jsonl")
	failed := func(err error) error {
		return fault.StoreDenied.At("keep answers in", path).Because(err).Advise("choose another --out")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, failed(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, failed(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, failed(errors.New("another evaluation writes it"))
	}
	journal := &Journal{file: file, known: map[string]json.RawMessage{}}
	end, was, err := journal.read()
	if err == nil && was != "" && was != about {
		err = newMismatchError(was, about)
	}
	if err == nil {
		err = file.Truncate(end) // a line that was being written
	}
	if err == nil {
		_, err = file.Seek(end, io.SeekStart)
	}
	if err == nil && was == "" {
		err = journal.write(journalLine{About: about})
	}
	if err != nil {
		_ = file.Close()
		return nil, failed(err)
	}
	return journal, nil
}

// ReadJournal reads the journal of a folder, if it has one, and refuses one of another evaluation by what is known of
// this one before its index is built: about is the beginning of what OpenJournal is given.
func ReadJournal(dir, about string) (*Journal, error) {
	path := filepath.Join(dir, "answers.jsonl")
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Journal{}, nil
	}
	journal := &Journal{file: file, known: map[string]json.RawMessage{}}
	was := ""
	if err == nil {
		_, was, err = journal.read()
		_ = file.Close()
	}
	if err == nil && was != "" && !strings.HasPrefix(was, about) {
		err = newMismatchError(was, about)
	}
	if err != nil {
		return nil, fault.StoreDenied.At("read answers of", path).Because(err).Advise("choose another --out")
	}
	return journal, nil
}

// newMismatchError returns the error of going on with an evaluation of something else.
func newMismatchError(was, about string) error {
	return errors.New("its answers are of another evaluation: " + was + "; this one is " + about)
}

// read takes in what is whole, and says where that ends.
func (j *Journal) read() (end int64, about string, err error) {
	reader := bufio.NewReader(j.file)
	for {
		raw, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, about, nil
		}
		var line journalLine
		if err == nil {
			err = json.Unmarshal(raw, &line)
		}
		if err != nil && about != "" { // one damaged answer is asked for again
			end += int64(len(raw))
			continue
		}
		if err != nil {
			return end, about, err
		}
		if line.About != "" {
			about = line.About
		} else {
			j.known[line.Key] = line.Value
		}
		end += int64(len(raw))
	}
}

func (j *Journal) write(line journalLine) error {
	raw, err := json.Marshal(line)
	if err == nil {
		_, err = j.file.Write(append(raw, '\n'))
	}
	return err
}

// Close ends it.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	if err := j.file.Close(); !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}

// askOnce returns the answer that a journal holds for a question, which fields name; else what ask returns, which is
// in the journal by then.
func askOnce[T any](
	ctx context.Context, j *Journal, fields []string, ask func(context.Context) (T, error),
) (value T, err error) {
	if j == nil {
		return ask(ctx)
	}
	key := core.Sum(fields...).String()
	j.mu.Lock()
	raw, known := j.known[key]
	j.mu.Unlock()
	if known {
		return value, json.Unmarshal(raw, &value)
	}
	if value, err = ask(ctx); err != nil {
		return value, err
	}
	if raw, err = json.Marshal(value); err != nil {
		return value, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.known[key] = raw
	return value, j.write(journalLine{Key: key, Value: raw})
}
