// Package recorded replays extractions from a file by the document's row id (DESIGN §10): lines of
// {"chunk_id", "entities": [{"name","description"}] or ["name"]}. A missing row is an error, never a call.
package recorded

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/llm"
	"github.com/unweaver/unweaver/internal/llm/builtin"
)

// Chat implements llm.Chat for extraction; the other tasks go to the built-in models.
type Chat struct {
	builtin.Chat
	model string
	byRow map[string]json.RawMessage
}

var _ llm.Chat = (*Chat)(nil)

// Open reads a recording. The model's name is recorded:<sha256 of the file>.
func Open(path string) (*Chat, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.BadConfig, fault.Fatal, "open recording", path, err, "set models.chat.file to a readable file")
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	c := &Chat{byRow: map[string]json.RawMessage{}}
	s := bufio.NewScanner(io.TeeReader(f, h))
	s.Buffer(make([]byte, 1<<20), 1<<28)
	for line := 1; s.Scan(); line++ {
		var r struct {
			ChunkID  string            `json:"chunk_id"`
			Entities []json.RawMessage `json:"entities"`
		}
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			return nil, fault.New(fault.BadConfig, fault.Fatal, "read recording", path, err, "every line is one JSON object with chunk_id and entities")
		}
		c.byRow[r.ChunkID] = entities(r.Entities)
	}
	if err := s.Err(); err != nil {
		return nil, fault.New(fault.BadConfig, fault.Fatal, "read recording", path, err, "")
	}
	c.model = "recorded:" + hex.EncodeToString(h.Sum(nil))
	return c, nil
}

func entities(raw []json.RawMessage) json.RawMessage {
	out := make([]builtin.Entity, 0, len(raw))
	for _, r := range raw {
		var e builtin.Entity
		var n string
		if json.Unmarshal(r, &n) == nil {
			e.Name = n
		} else if json.Unmarshal(r, &e) != nil {
			continue
		}
		out = append(out, e)
	}
	b, _ := json.Marshal(map[string]any{"entities": out}) // strings always marshal
	return b
}

// Info implements llm.Chat.
func (c *Chat) Info() llm.Info { return llm.Info{Provider: "recorded", Model: c.model} }

// Complete implements llm.Chat.
func (c *Chat) Complete(ctx context.Context, call llm.Call) (llm.Reply, error) {
	if call.Task != llm.Extract {
		return c.Chat.Complete(ctx, call)
	}
	row := call.Ref[strings.LastIndexByte(call.Ref, '#')+1:]
	b, ok := c.byRow[row]
	if !ok {
		return llm.Reply{}, fault.New(fault.NotRecorded, fault.Content, "replay extraction of", call.Ref, "the recording has no such row", "record it, or use provider openai or builtin")
	}
	return llm.Reply{Text: string(b)}, nil
}
