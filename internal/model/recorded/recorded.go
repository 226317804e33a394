// Package recorded replays extractions from a file by the document's row id: lines of
// {"chunk_id", "entities": [{"name","description"}] or ["name"]}. A missing row is an error, never a call. Lines may
// have "triples", too: [[head, relation, tail]] or [{"sentence","head","relation","tail"}], replayed in the same way.
package recorded

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
)

// Chat implements model.Chat for extraction; another model, which costs nothing, does the other tasks.
type Chat struct {
	rest  model.Chat
	model string
	byRow map[string]string // row id -> {"entities":[...]}
	said  map[string]string // row id -> {"triples":[...]}; empty: nothing was recorded of them
}

var _ model.Chat = (*Chat)(nil)

// longestLine of a recording, in bytes.
const longestLine = 1 << 28

// entity is one name of a row.
type entity struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// UnmarshalJSON reads a bare name as well.
func (e *entity) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &e.Name) == nil {
		return nil
	}
	type plain entity // without this method
	return json.Unmarshal(raw, (*plain)(e))
}

// Open reads a recording; rest does what is not extraction. The model's name is recorded:<sha256 of the file>.
func Open(path string, rest model.Chat) (*Chat, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.BadConfig.At("open recording", path).
			Because(err).
			Advise("set models.chat.file to a readable file")
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	chat := &Chat{rest: rest, byRow: map[string]string{}, said: map[string]string{}}
	scanner := bufio.NewScanner(io.TeeReader(file, hash))
	scanner.Buffer(make([]byte, 1<<20), longestLine)
	for line := 1; scanner.Scan(); line++ {
		if err := chat.readLine(scanner.Bytes()); err != nil {
			return nil, fault.BadConfig.At("read recording", fmt.Sprintf("%s line %d", path, line)).
				Because(err).
				Advise("each line must be one JSON object with chunk_id and entities")
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fault.BadConfig.At("read recording", path).Because(err)
	}
	chat.model = "recorded:" + hex.EncodeToString(hash.Sum(nil))
	return chat, nil
}

// readLine takes one line. A name that is neither text nor an object is left out, as models' own answers are read.
func (c *Chat) readLine(line []byte) error {
	var row struct {
		ChunkID  string            `json:"chunk_id"`
		Entities []json.RawMessage `json:"entities"`
		Triples  []json.RawMessage `json:"triples"`
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return err
	}
	entities := make([]entity, 0, len(row.Entities))
	for _, raw := range row.Entities {
		var one entity
		if json.Unmarshal(raw, &one) == nil {
			entities = append(entities, one)
		}
	}
	answer, err := json.Marshal(map[string]any{"entities": entities})
	c.byRow[row.ChunkID] = string(answer)
	if err != nil || row.Triples == nil {
		return err
	}
	said, err := json.Marshal(map[string]any{"triples": row.Triples})
	c.said[row.ChunkID] = string(said)
	return err
}

// Info implements model.Chat.
func (c *Chat) Info() model.Info { return model.Info{Provider: "recorded", Model: c.model} }

// Complete implements model.Chat. The row of an extraction is what follows the last # of Call.Ref. Triples of a
// document are replayed where the file has any; those of a question, which names no document, are the other model's.
func (c *Chat) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	rows, of := c.byRow, "extraction"
	switch {
	case call.Task == model.Triples && call.Ref != "" && len(c.said) > 0:
		rows, of = c.said, "triples"
	case call.Task != model.Extract:
		return c.rest.Complete(ctx, call)
	}
	if err := ctx.Err(); err != nil {
		return model.Reply{}, err
	}
	answer, ok := rows[call.Ref[strings.LastIndexByte(call.Ref, '#')+1:]]
	if !ok {
		return model.Reply{}, fault.NotRecorded.At("replay "+of+" of", call.Ref).
			Because("the recording has no answer for this request").
			Advise("record the answer, or use provider openai or builtin")
	}
	return model.Reply{Text: answer}, nil
}
