package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
)

type chatRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
	ResponseFormat struct {
		JSONSchema struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func (s *Server) chat(w http.ResponseWriter, request *http.Request, call call) {
	var asked chatRequest
	if err := json.NewDecoder(request.Body).Decode(&asked); err != nil {
		refuse(w, http.StatusBadRequest, "bad_request", err.Error(), 0)
		return
	}
	task, user, parts, size := asked.read()
	if task == model.Transcribe && call.options.Blind {
		refuse(w, http.StatusBadRequest, "", "test is not a multimodal model", 0)
		return
	}
	s.book.count(func(stats *Stats) { stats.ChatInFlight++ })
	defer s.book.count(func(stats *Stats) { stats.ChatInFlight-- })
	injection := call.options.inject(Seen{N: call.number, Task: task, System: asked.system(), Text: user})
	if !s.admit(w, request, injection) {
		return
	}
	content, bad := call.options.spoil(user, s.content(asked.kind(task), user))
	if injection.Content != "" {
		content, bad = injection.Content, true
	}
	bad = bad || injection.Body != "" || injection.HalfBody || injection.StallBody
	cost := Cost{Prompt: int64(size / 4), Completion: int64(len(content) / 4)}
	prompt := digest(parts...)
	s.book.chat(task, prompt, user, cost, bad)
	respond(w, request, injection, completion(prompt, asked.Model, content, cost))
}

// system gives the instructions of a request.
func (asked chatRequest) system() string {
	if len(asked.Messages) == 0 || asked.Messages[0].Role != "system" {
		return ""
	}
	return asked.Messages[0].Content.text
}

// read gives the task of a request, its last text of the user, all its texts, and their length in bytes.
func (asked chatRequest) read() (task, user string, parts []string, size int) {
	task = asked.ResponseFormat.JSONSchema.Name
	if task == "" {
		task = "answer"
	}
	parts = make([]string, 0, 2*len(asked.Messages))
	for _, message := range asked.Messages {
		said := message.Content
		parts = append(parts, message.Role, said.text, strings.Join(said.pictures, " "))
		size += len(said.text) + pictureBytes*len(said.pictures)
		if message.Role == "user" {
			user = said.text
		}
		for _, url := range said.pictures {
			task, user = model.Transcribe, readPicture(url)
		}
	}
	return task, user, parts, size
}

// completion returns the body of an answer.
func completion(prompt, name, content string, cost Cost) map[string]any {
	return map[string]any{
		"id": "chatcmpl-" + prompt[:12], "object": "chat.completion",
		"created": time.Now().Unix(), "model": name,
		"choices": []any{map[string]any{
			"index":         0,
			"finish_reason": "stop",
			"message":       map[string]any{"role": "assistant", "content": content},
		}},
		"usage": map[string]int64{
			"prompt_tokens":     cost.Prompt,
			"completion_tokens": cost.Completion,
			"total_tokens":      cost.Prompt + cost.Completion,
		},
	}
}

// Kinds of answers beside the tasks.
const kindQuestions = "questions"

// kind returns the kind of answer that is asked for: questions count as extraction, and only their schema distinguishes
// them.
func (asked chatRequest) kind(task string) string {
	if bytes.Contains(asked.ResponseFormat.JSONSchema.Schema, []byte(`"questions"`)) {
		return kindQuestions
	}
	return task
}

// content returns the content of a good answer.
func (s *Server) content(task, user string) string {
	if _, text, ok := strings.Cut(user, model.TextFollows); ok {
		user = text
	}
	switch task {
	case "extract":
		if len(user) >= passageBytes {
			if entities, ok := s.recorded[user[:passageBytes]]; ok {
				return string(entities)
			}
		}
		entities, _ := json.Marshal(map[string]any{"entities": builtin.FindEntities(user)}) // strings always marshal
		return string(entities)
	case "shorten":
		description, _ := json.Marshal(map[string]string{"description": builtin.Summarize(user, 800)})
		return string(description)
	case model.Transcribe:
		return user
	case "judge":
		return judgement(user)
	case kindQuestions:
		questions := []string{}
		for _, entity := range builtin.FindEntities(user) {
			questions = append(questions, "What is said of "+entity.Name+"?")
		}
		return marshal(map[string]any{"questions": questions})
	case model.Triples:
		var text strings.Builder
		for line := range strings.Lines(user) {
			_, sentence, _ := strings.Cut(line, "] ") // they are numbered
			text.WriteString(strings.TrimSpace(sentence) + " ")
		}
		reply, err := builtin.Chat{}.Complete(context.Background(), model.Call{Task: model.Triples, Input: text.String()})
		if err != nil {
			return err.Error()
		}
		return reply.Text
	case model.Pairs:
		first, second, _ := strings.Cut(user, "\n\nB: ")
		name := func(side string) string {
			line, _, _ := strings.Cut(side, "\n")
			return strings.ToLower(strings.ReplaceAll(line, " ", ""))
		}
		same := name(strings.TrimPrefix(first, "A: ")) == name(second)
		return marshal(map[string]any{"same": same, "why": "their letters"})
	}
	return "An answer from the test server."
}

// judgement cuts a text at its full stops into claims, or supports those statements that the context holds as they are.
func judgement(user string) string {
	context, list, judged := strings.Cut(user, "\n\nStatements:\n")
	if !judged {
		claims := strings.FieldsFunc(strings.TrimPrefix(user, "Text: "), func(r rune) bool { return r == '.' })
		return marshal(map[string]any{"claims": claims})
	}
	verdicts := []map[string]any{}
	for line := range strings.Lines(list) {
		_, statement, _ := strings.Cut(strings.TrimSpace(line), ". ")
		verdict := 0
		if strings.Contains(context, statement) {
			verdict = 1
		}
		verdicts = append(verdicts, map[string]any{"statement": statement, "reason": "its words", "verdict": verdict})
	}
	return marshal(map[string]any{"verdicts": verdicts})
}

func marshal(answer map[string]any) string {
	raw, _ := json.Marshal(answer) // strings and truths always marshal
	return string(raw)
}
