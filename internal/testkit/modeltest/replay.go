package modeltest

import (
	"bufio"
	"encoding/json"
	"os"

	"github.com/unweaver/unweaver/internal/model/builtin"
)

// passageBytes identify a recorded passage in a prompt.
const passageBytes = 48

// Replay loads a corpus (id, text) and extractions (chunk_id, entities) to answer from.
func (s *Server) Replay(corpus, extractions string) error {
	byID := map[string]json.RawMessage{}
	err := lines(extractions, func(b []byte) error {
		var r struct {
			ChunkID  string            `json:"chunk_id"`
			Entities []json.RawMessage `json:"entities"`
		}
		if err := json.Unmarshal(b, &r); err != nil {
			return err
		}
		es := []builtin.Entity{}
		for _, raw := range r.Entities {
			var entity builtin.Entity
			if json.Unmarshal(raw, &entity.Name) != nil && json.Unmarshal(raw, &entity) != nil {
				continue
			}
			es = append(es, entity)
		}
		v, err := json.Marshal(map[string]any{"entities": es})
		byID[r.ChunkID] = v
		return err
	})
	if err != nil {
		return err
	}
	return lines(corpus, func(b []byte) error {
		var r struct{ ID, Text string }
		if err := json.Unmarshal(b, &r); err != nil {
			return err
		}
		if v, ok := byID[r.ID]; ok && len(r.Text) >= passageBytes {
			s.recorded[r.Text[:passageBytes]] = v
		}
		return nil
	})
}

func lines(path string, f func([]byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	sc := bufio.NewScanner(file)
	sc.Buffer(make([]byte, 1<<20), 1<<27)
	for sc.Scan() {
		if err := f(sc.Bytes()); err != nil {
			return err
		}
	}
	return sc.Err()
}
