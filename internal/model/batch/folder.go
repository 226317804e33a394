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

func (f Folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.Dir}, parts...)...)
}

func (f Folder) failed(what, object string, err error) error {
	return fault.ModelUnavailable.At(what, f.path(object)).Because(err).
		Advise("models.chat.batch.folder must be a folder that this process may write to")
}

// name of a file that is within the folder.
func name(id string) (string, error) {
	if id == "" || strings.ContainsAny(id, "/\\") || strings.HasPrefix(id, ".") {
		return "", fault.Internal.At("name a file of a batch", fault.Quoted(id)).Because("it is no plain name")
	}
	return strings.TrimSuffix(id, ".jsonl") + ".jsonl", nil
}

// Upload implements Server: the id is the name.
func (f Folder) Upload(_ context.Context, id string, lines []byte) (string, error) {
	file, err := name(id)
	if err != nil {
		return "", err
	}
	for _, folder := range []string{folderInput, folderOutput, folderCancelled, folderSent} {
		if err := os.MkdirAll(f.path(folder), 0o770); err != nil { //nolint:gosec // who answers may be of the group
			return "", f.failed("make a folder for batches", folder, err)
		}
	}
	made := f.path(folderSent, file)
	if err := os.WriteFile(made, lines, 0o660); err != nil { //nolint:gosec // likewise
		return "", f.failed("write requests of a batch", folderSent+"/"+file, err)
	}
	return folderSent + "/" + file, nil
}

// Create implements Server: from now on the requests can be answered.
func (f Folder) Create(_ context.Context, file, part string) (Batch, error) {
	to, err := name(part)
	if err != nil {
		return Batch{}, err
	}
	if err := os.Rename(f.path(filepath.FromSlash(file)), f.path(folderInput, to)); err != nil {
		return Batch{}, f.failed("send requests of a batch", file, err)
	}
	return f.tell(part, "in_progress"), nil
}

func (f Folder) tell(id, status string) Batch {
	file := strings.TrimSuffix(id, ".jsonl") + ".jsonl"
	told := Batch{ID: id, Status: status, Input: folderInput + "/" + file, Metadata: map[string]string{PartName: id}}
	if status == Completed {
		told.Output = folderOutput + "/" + file
	}
	return told
}

// Get implements Server.
func (f Folder) Get(_ context.Context, id string) (Batch, error) {
	file, err := name(id)
	if err != nil {
		return Batch{}, err
	}
	for _, place := range []struct{ folder, status string }{
		{folderOutput, Completed}, {folderCancelled, Cancelled}, {folderInput, "in_progress"},
	} {
		switch _, err := os.Stat(f.path(place.folder, file)); {
		case err == nil:
			return f.tell(id, place.status), nil
		case !errors.Is(err, fs.ErrNotExist):
			return Batch{}, f.failed("look for a batch", place.folder+"/"+file, err)
		}
	}
	return Batch{}, fault.NotFound.At("look for a batch", f.path(folderInput, file)).
		Because("neither its requests nor answers lie there")
}

// Cancel implements Server. What is being answered at that moment is not stopped; its answers are not taken.
func (f Folder) Cancel(_ context.Context, id string) error {
	file, err := name(id)
	if err != nil {
		return err
	}
	err = os.Rename(f.path(folderInput, file), f.path(folderCancelled, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.failed("cancel a batch", folderInput+"/"+file, err)
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
func (f Folder) Content(_ context.Context, file string) ([]byte, error) {
	raw, err := os.ReadFile(f.path(filepath.FromSlash(file)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.NotFound.At("read answers of a batch", f.path(file)).Because(err)
	}
	if err != nil {
		return nil, f.failed("read answers of a batch", file, err)
	}
	return raw, nil
}

// Delete implements Server. Requests that were cancelled go with their batch.
func (f Folder) Delete(_ context.Context, file string) error {
	_, plain, _ := strings.Cut(file, "/")
	_ = os.Remove(f.path(folderCancelled, plain)) // most are not there
	if err := os.Remove(f.path(filepath.FromSlash(file))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.failed("delete a file of a batch", file, err)
	}
	return nil
}
