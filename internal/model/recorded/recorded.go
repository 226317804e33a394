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
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
)

// Chat implements model.Chat for extraction; the other tasks go to the built-in models.
type Chat struct {
	builtin.Chat
	model string
	byRow map[string]json.RawMessage
}

var _ model.Chat = (*Chat)(nil)

// Open reads a recording. The model's name is recorded:<sha256 of the file>.
func Open(path string) (*Chat, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.BadConfig.At("open recording", path).
			Because(err).
			Advise("set models.chat.file to a readable file")
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	chat := &Chat{byRow: map[string]json.RawMessage{}}
	scanner := bufio.NewScanner(io.TeeReader(file, hash))
	scanner.Buffer(make([]byte, 1<<20), 1<<28)
	for line := 1; scanner.Scan(); line++ {
		var r struct {
			ChunkID  string            `json:"chunk_id"`
			Entities []json.RawMessage `json:"entities"`
		}
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			return nil, fault.BadConfig.At("read recording", path).
				Because(err).
				Advise("every line is one JSON object with chunk_id and entities")
		}
		chat.byRow[r.ChunkID] = entities(r.Entities)
	}
	if err := scanner.Err(); err != nil {
		return nil, fault.BadConfig.At("read recording", path).Because(err)
	}
	chat.model = "recorded:" + hex.EncodeToString(hash.Sum(nil))
	return chat, nil
}

func entities(raw []json.RawMessage) json.RawMessage {
	out := make([]builtin.Entity, 0, len(raw))
	for _, message := range raw {
		var entity builtin.Entity
		var n string
		if json.Unmarshal(message, &n) == nil {
			entity.Name = n
		} else if json.Unmarshal(message, &entity) != nil {
			continue
		}
		out = append(out, entity)
	}
	b, _ := json.Marshal(map[string]any{"entities": out}) // strings always marshal
	return b
}

// Info implements model.Chat.
func (c *Chat) Info() model.Info { return model.Info{Provider: "recorded", Model: c.model} }

// Complete implements model.Chat.
func (c *Chat) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task != model.Extract {
		return c.Chat.Complete(ctx, call)
	}
	row := call.Ref[strings.LastIndexByte(call.Ref, '#')+1:]
	message, ok := c.byRow[row]
	if !ok {
		return model.Reply{}, fault.NotRecorded.At("replay extraction of", call.Ref).
			Because("the recording has no such row").
			Advise("record it, or use provider openai or builtin")
	}
	return model.Reply{Text: string(message)}, nil
}
