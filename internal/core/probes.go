package core

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Question is a question that generations are asked. The lines of gate.probes name the documents that answer. Standing
// questions have the rest (docs/guides/watch.md).
type Question struct {
	Line      int      `json:"-"`
	ID        string   `json:"id,omitempty"` // of a standing question
	Question  string   `json:"question"`
	Documents []string `json:"-"`                // keys; empty only where they are not asked for
	Labels    []string `json:"labels,omitempty"` // of who asks; none: what is public
	Notify    string   `json:"notify,omitempty"` // name of a webhook; empty: the index's
}

// Probed is what a run found by probe questions.
type Probed struct {
	Asked   int      `json:"asked"`
	Chunks  int      `json:"chunks"` // the first so many of an answer count
	Recall  float64  `json:"recall"`
	Before  *float64 `json:"before"`            // of the generation before; null: there is none that can be asked
	Worse   []string `json:"worse,omitempty"`   // questions, the first of them
	Missing []string `json:"missing,omitempty"` // documents that there are not, the first of them, with their lines
	Unasked string   `json:"unasked,omitempty"` // why the generation before cannot be asked
}

const (
	// MaxProbes bounds the questions of a file: each is asked twice in every run.
	MaxProbes = 2000
	// MaxProbeBytes bounds a probe file.
	MaxProbeBytes = 2 << 20
	// longestQuestion is that of a query, in code points.
	longestQuestion = 8192
)

// ReadProbes reads a probe file: JSON Lines of {"question", "documents": [keys]}; other fields are passed over. gold:
// every line must name documents. An error names the line. Empty lines are passed over.
func ReadProbes(from io.Reader, gold bool) ([]Question, error) {
	var out []Question
	lines := bufio.NewScanner(io.LimitReader(from, MaxProbeBytes+1))
	lines.Buffer(nil, MaxProbeBytes)
	read := 0
	for line := 1; lines.Scan(); line++ {
		raw := bytes.TrimSpace(lines.Bytes())
		if read += len(raw) + 1; read > MaxProbeBytes {
			return nil, fmt.Errorf("it has more than %d bytes", MaxProbeBytes)
		}
		if len(raw) == 0 {
			continue
		}
		var probe struct {
			Question  string   `json:"question"`
			Documents []string `json:"documents"`
		}
		err := json.Unmarshal(raw, &probe)
		probe.Question = strings.TrimSpace(probe.Question)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", line, err)
		case probe.Question == "":
			return nil, fmt.Errorf("line %d: it has no question", line)
		case len([]rune(probe.Question)) > longestQuestion:
			return nil, fmt.Errorf("line %d: the question has more than %d characters", line, longestQuestion)
		case gold && (len(probe.Documents) == 0 || slices.Contains(probe.Documents, "")):
			return nil, fmt.Errorf("line %d: it names no document", line)
		}
		out = append(out, Question{Line: line, Question: probe.Question, Documents: probe.Documents})
		if len(out) > MaxProbes {
			return nil, fmt.Errorf("it has more than %d questions", MaxProbes)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("it has no question")
	}
	return out, nil
}
