package embed

import (
	"sync"
	"time"
)

// Servers differ in how many texts they take in one request, and say so in words of their own. What was found out is
// kept for the process, by address and model, for a while: a server may have refused many texts for another reason.
const takenFor = time.Hour

// fewTexts are no more than any server takes: that so many or fewer were refused says nothing of their number.
const fewTexts = 8

type takenTexts struct {
	most  int
	until time.Time
}

var (
	takenMu sync.Mutex
	taken   = map[string]takenTexts{}
)

func (s Source) takenKey() string {
	info := s.Embedder.Info()
	return info.Endpoint + "\x00" + info.Model
}

// maxTexts returns how many texts a request may have: at least one.
func (s Source) maxTexts() int {
	takenMu.Lock()
	defer takenMu.Unlock()
	if known, ok := taken[s.takenKey()]; ok && time.Now().Before(known.until) {
		return known.most
	}
	return MaxItems
}

// takesAtMost keeps that more texts were refused, and so many were taken.
func (s Source) takesAtMost(texts int) {
	takenMu.Lock()
	defer takenMu.Unlock()
	taken[s.takenKey()] = takenTexts{texts, time.Now().Add(takenFor)}
}
