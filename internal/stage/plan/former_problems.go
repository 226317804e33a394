package plan

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// ProblemsName is the file of a generation that lists all problems of its build, one core.Problem a line.
const ProblemsName = "problems.jsonl"

const (
	standingPrefix = "as in the generation before: "
	staleSuffix    = "; what was there before is kept, and is stale"

	// formerCauses bounds how many causes of the generation before are held in memory.
	formerCauses = 20_000
)

// former says why documents could not be used in the generation before. Its list of problems is read when the first is
// asked for; a list that is gone or damaged costs the causes, nothing else.
type former struct {
	ctx    context.Context
	key    string
	causes map[string]string // by document
}

// detailOf returns the detail of a problem that still stands: its cause as it was found, however many nights ago.
func (f *former) detailOf(index artifact.Index, document string) string {
	if f.causes == nil {
		f.causes = map[string]string{}
		f.readCauses(index.Store)
	}
	cause := f.causes[document]
	if cause == "" {
		return "as in the generation before; the document did not change since"
	}
	return standingPrefix + cause
}

func (f *former) readCauses(store blob.Store) {
	body, _, err := store.Get(f.ctx, f.key, blob.All)
	if err != nil {
		return
	}
	defer func() { _ = body.Close() }()
	lines := bufio.NewReader(body)
	for len(f.causes) < formerCauses {
		line, err := lines.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) { // a line that long is none of ours
			line = nil
			_, err = lines.ReadSlice('\n')
		}
		var problem core.Problem
		if len(line) > 0 && json.Unmarshal(line, &problem) == nil && isLasting(fault.Code(problem.Code)) {
			cause := strings.TrimSuffix(strings.TrimPrefix(problem.Detail, standingPrefix), staleSuffix)
			if !strings.HasPrefix(cause, strings.TrimSuffix(standingPrefix, ": ")) {
				f.causes[problem.Object] = cause
			}
		}
		if err != nil {
			return
		}
	}
}
