package cli_test

import (
	"testing"
)

func TestStepsAlongEdgesAreExplained(t *testing.T) {
	body := `{"index":"docs","method":"gem","chunks":[{"id":"c1","rank":1},{"id":"c2","rank":2},{"id":"c3","rank":3}],
"explain":{"chunks":[
 {"id":"c1","score":0.9,"question":"Who?","step":{"priority":0.9}},
 {"id":"c2","score":0.5,"question":"Where?","step":{"priority":0.6,"from":"c1","weight":0.4}},
 {"id":"c3","score":0.4,"question":"When?","step":{"priority":0.5,"theme":2,"weight":0.3}}],"summaries":[]}}`
	got := ask(t, &queries{bodies: []string{body}}, "--index", "docs", "--explain")
	contains(t, got.out, "Who?, priority 0.900, no edge led here", "priority 0.600 along an edge of 0.400 from [1]",
		"priority 0.500 along an edge of 0.300 from the summary of theme 2")
}

func TestFactsAreExplained(t *testing.T) {
	body := `{"index":"docs","method":"apr","chunks":[{"id":"c1","rank":1},{"id":"c2","rank":2}],"explain":{
"names":["Redis"],"encoding":"words","tokens":73,"runs":[
 {"fine":0.952,"coarse":0.089,"top":0.64,"cover":1,"kept":true,"facts":["Redis holds leases","leases end"]},
 {"fine":0.5,"kept":false,"facts":["leases are held"]}],
"told":[{"head":"Redis","relation":"holds","tail":"leases","chunks":["c2","gone"]}]}}`
	got := ask(t, &queries{bodies: []string{body}}, "--index", "docs", "--explain")
	contains(t, got.out, "runs of facts, compared by Redis:", "0.952   0.089   0.640   1.000",
		"Redis holds leases; leases end",
		"leases are held (left out: another run says the same)", "passed to the model as words, 73 tokens:",
		"Redis | holds | leases  [2]\n")
	body = `{"index":"docs","method":"apr","chunks":[],"explain":{"names":[],"runs":[],"told":[]}}`
	got = ask(t, &queries{bodies: []string{body}}, "--index", "docs", "--explain")
	contains(t, got.out, "no name in the question: the whole question is compared", "passed to the model: nothing")
}
