package control_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/controltest"
)

func TestWhatAnOperatorWritesIsRecordedInOneLine(t *testing.T) {
	assert.Zero(t, control.OperatorOf(t.Context()))
	for text, want := range map[string]string{
		"": "", " \n\t": "", "one": "one", " two\r\n words ": "two words", "a\vb\fc\u0085d\u2028e\u2029f": "a b c d e f",
		"no\u00a0break": "no break", "\u00fcber\n\n\u4e2d\u6587": "\u00fcber \u4e2d\u6587", "\xff\n\xfe": "\xff \xfe",
	} {
		ctx := control.WithOperator(t.Context(), core.Operator{By: text, Reason: text, Via: "token"})
		assert.Equal(t, core.Operator{By: want, Reason: want, Via: "token"}, control.OperatorOf(ctx), "%q", text)
	}
}

func TestOnlyAMarkedContextIsOfAnother(t *testing.T) {
	ctx := control.ForAnother(t.Context())
	below, cancel := context.WithCancel(control.WithOperator(ctx, core.Operator{By: "b"}))
	defer cancel()
	assert.Equal(t, []bool{false, true, true},
		[]bool{control.OfAnother(t.Context()), control.OfAnother(ctx), control.OfAnother(below)})
}

func TestTheExactNameOfARunHasItsID(t *testing.T) {
	assert.Equal(t, "docs/g1", control.Run{Run: "docs/g1"}.ExactName())
	assert.Equal(t, "docs/g1#7f", control.Run{Run: "docs/g1", RunID: "7f"}.ExactName())
}

// Each method of a control is carried under a name of its own, with a name for each argument that is not a request.
func TestAControlHasEveryMethodUnderANameOfItsOwn(t *testing.T) {
	calls, seen := reflect.ValueOf(control.Of(&controltest.Recorder{})).Elem(), map[string]bool{}
	for field, call := range calls.Fields() {
		words := strings.Fields(field.Tag.Get("call"))
		if !assert.True(t, len(words) > 0 && !call.IsNil(), field.Name) {
			continue
		}
		assert.False(t, seen[words[0]], words[0])
		seen[words[0]] = true
		for i := 1; i < call.Type().NumIn(); i++ {
			isRequest := call.Type().NumIn() == 2 && call.Type().In(i).Kind() == reflect.Struct
			assert.True(t, isRequest || len(words) == call.Type().NumIn(), "%s: argument %d has no name", field.Name, i)
		}
	}
	assert.Panics(t, func() { control.Of(struct{}{}) }, "a type without a method")
	assert.Panics(t, func() { control.Of(wrong{&controltest.Recorder{}}) }, "a method with other arguments")
}

// wrong is a control with a method that has other arguments.
type wrong struct{ *controltest.Recorder }

func (wrong) RestoreIndex(context.Context) error { return nil }
