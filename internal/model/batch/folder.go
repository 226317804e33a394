package batch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
)

// Folder is a Server for programs that answer a file of requests without a server, as `vllm run-batch -i FILE -o FILE`
// does: a shared folder, in which somebody answers what appears.
//
//	input/NAME.jsonl      requests, put there whole; they are taken out when their answers were taken, or are late
//	output/NAME.jsonl     answers, to be put there whole: written under another name, and renamed
//	cancelled/NAME.jsonl  requests that are no longer needed
//	sent/NAME.jsonl       requests on their way to input
//
// The folder is of this program and of those who answer alone. Two programs that answer one file cost twice; that is
// theirs to avoid.
type Folder struct{ Dir string }

var _ Server = Folder{}

// Folders below Dir.
const (
	folderInput     = "input"
	folderOutput    = "output"
	folderCancelled = "cancelled"
	folderSent      = "sent"
)

func (f Folder) joinPath(parts ...string) string {
	return filepath.Join(append([]string{f.Dir}, parts...)...)
}

func (f Folder) newFolderFault(what, object string, err error) error {
	return fault.ModelUnavailable.At(what, f.joinPath(object)).Because(err).
		Advise("models.chat.batch.folder must be a folder that this process may write to")
}

// fileName returns the name of the file of an id. It refuses an id that is no plain name, so that the file is within
// the folder.
func fileName(id string) (string, error) {
	if id == "" || strings.ContainsAny(id, "/\\") || strings.HasPrefix(id, ".") {
		return "", fault.Internal.At("name a file of a batch", fault.QuoteName(id)).Because("it is no plain name")
	}
	return strings.TrimSuffix(id, ".jsonl") + ".jsonl", nil
}

// Upload implements Server: the id is the name.
func (f Folder) Upload(_ context.Context, id string, lines []byte) (string, error) {
	file, err := fileName(id)
	if err != nil {
		return "", err
	}
	for _, folder := range []string{folderInput, folderOutput, folderCancelled, folderSent} {
		if err := os.MkdirAll(f.joinPath(folder), 0o770); err != nil { //nolint:gosec // who answers may be of the group
			return "", f.newFolderFault("make a folder for batches", folder, err)
		}
	}
	made := f.joinPath(folderSent, file)
	if err := os.WriteFile(made, lines, 0o660); err != nil { //nolint:gosec // likewise
		return "", f.newFolderFault("write requests of a batch", folderSent+"/"+file, err)
	}
	return folderSent + "/" + file, nil
}

// Create implements Server: from now on the requests can be answered.
func (f Folder) Create(_ context.Context, file, part string) (Batch, error) {
	to, err := fileName(part)
	if err != nil {
		return Batch{}, err
	}
	if err := os.Rename(f.joinPath(filepath.FromSlash(file)), f.joinPath(folderInput, to)); err != nil {
		return Batch{}, f.newFolderFault("send requests of a batch", file, err)
	}
	return f.batchOf(part, "in_progress"), nil
}

func (f Folder) batchOf(id, status string) Batch {
	file := strings.TrimSuffix(id, ".jsonl") + ".jsonl"
	got := Batch{ID: id, Status: status, Input: folderInput + "/" + file, Metadata: map[string]string{PartName: id}}
	if status == Completed {
		got.Output = folderOutput + "/" + file
	}
	return got
}

// Get implements Server.
func (f Folder) Get(_ context.Context, id string) (Batch, error) {
	file, err := fileName(id)
	if err != nil {
		return Batch{}, err
	}
	for _, place := range []struct{ folder, status string }{
		{folderOutput, Completed}, {folderCancelled, Cancelled}, {folderInput, "in_progress"},
	} {
		switch _, err := os.Stat(f.joinPath(place.folder, file)); {
		case err == nil:
			return f.batchOf(id, place.status), nil
		case !errors.Is(err, fs.ErrNotExist):
			return Batch{}, f.newFolderFault("look for a batch", place.folder+"/"+file, err)
		}
	}
	return Batch{}, fault.NotFound.At("look for a batch", f.joinPath(folderInput, file)).
		Because("the folder contains neither its requests nor its answers")
}

// Cancel implements Server. What is being answered at that moment is not stopped; its answers are not taken.
func (f Folder) Cancel(_ context.Context, id string) error {
	file, err := fileName(id)
	if err != nil {
		return err
	}
	err = os.Rename(f.joinPath(folderInput, file), f.joinPath(folderCancelled, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.newFolderFault("cancel a batch", folderInput+"/"+file, err)
	}
	return nil
}

// Find implements Server.
func (f Folder) Find(ctx context.Context, wanted map[string]bool) (map[string][]Batch, error) {
	found := map[string][]Batch{}
	for id := range wanted {
		switch batch, err := f.Get(ctx, id); {
		case err == nil:
			found[id] = []Batch{batch}
		case !fault.Is(err, fault.NotFound):
			return nil, err
		}
	}
	return found, nil
}

// Content implements Server.
func (f Folder) Content(_ context.Context, file string, _ int) ([]byte, error) {
	raw, err := os.ReadFile(f.joinPath(filepath.FromSlash(file)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.NotFound.At("read answers of a batch", f.joinPath(file)).Because(err)
	}
	if err != nil {
		return nil, f.newFolderFault("read answers of a batch", file, err)
	}
	return raw, nil
}

// Delete implements Server. Requests that were cancelled go with their batch.
func (f Folder) Delete(_ context.Context, file string) error {
	_, plain, _ := strings.Cut(file, "/")
	_ = os.Remove(f.joinPath(folderCancelled, plain)) // most are not there
	if err := os.Remove(f.joinPath(filepath.FromSlash(file))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.newFolderFault("delete a file of a batch", file, err)
	}
	return nil
}
