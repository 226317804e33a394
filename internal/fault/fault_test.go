package fault_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// declared reads the constants of type Code from the source, so that one without a kind cannot hide.
func declared(t *testing.T) map[string]fault.Code {
	t.Helper()
	file := musttest.Get(parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0))(t)
	codes := map[string]fault.Code{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != "Code" {
			return true
		}
		for i, name := range spec.Names {
			text := musttest.Get(strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value))(t)
			codes[name.Name] = fault.Code(text)
		}
		return true
	})
	return codes
}

// Promises: 20.
func TestEveryCodeHasAMeaningAndANameOfItsOwn(t *testing.T) {
	listed := fault.Codes()
	assert.True(t, slices.IsSorted(listed), "Codes is not sorted")
	names := declared(t)
	assert.True(t, len(names) >= 40 && len(names) == len(listed),
		"%d codes are declared, %d have a kind", len(names), len(listed))
	seen := map[fault.Code]string{}
	for name, code := range names {
		assert.True(t, slices.Contains(listed, code), "%s has no kind", name)
		assert.True(t, regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(string(code)),
			"%s: %q stands in URIs", name, code)
		other, ok := seen[code]
		assert.False(t, ok, "%s and %s are both %q", name, other, code)
		seen[code] = name
	}
}

var update = flag.Bool("update", false, "write docs/reference/errors.md")

const referencePath = "../../docs/reference/errors.md"

const referenceHead = `# Errors

<!-- Made from internal/fault/codes.go by: go test ./internal/fault -run Reference -update. Change it there. -->

For everybody who meets an error: what happened, why, and what to do, by code. The code stands in the answers of the
API (` + "`code`, and the end of `type`" + `), in the JSON of commands (` + "`code`" + `), in reports and in logs.
`

// The codes in the order of what they mean for who meets them.
var referenceKinds = []struct {
	kind fault.Kind
	head string
}{
	{fault.Bad, "What you asked for\n\nThe command or request is refused. Nothing happened; correct it and ask again."},
	{fault.Transient, "What passes\n\nA run tries again by itself. A client of the API waits as `Retry-After` says."},
	{fault.Content, "One document or passage\n\nIt is left out and reported; the run goes on."},
	{fault.Fatal, "The run or the installation\n\nThe run pauses or ends, and nothing that was paid for is lost. A person " +
		"has to act, unless the code says otherwise."},
}

func TestTheReferenceOfErrorsIsTheTable(t *testing.T) {
	var text strings.Builder
	text.WriteString(referenceHead)
	for _, group := range referenceKinds {
		text.WriteString("\n## " + group.head + "\n")
		for _, code := range fault.Codes() {
			meaning := code.Meaning()
			for _, part := range []string{meaning.What, meaning.Why, meaning.Do} {
				assert.Regexp(t, "^[A-Z`].*[.]$", part, "%s", code)
			}
			if code.Kind() == group.kind {
				fmt.Fprintf(&text, "\n### %s\n\n%s\n\n* Why: %s\n* What to do: %s\n", code, meaning.What, meaning.Why, meaning.Do)
			}
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(referencePath, []byte(text.String()), 0o644))
	}
	have := musttest.Get(os.ReadFile(referencePath))(t)
	assert.Equal(t, string(have), text.String(), "run: go test ./internal/fault -run Reference -update")
}

// How the codes heal that decide about money and loss; what is not here is checked to have some kind.
func TestKindsThatDecide(t *testing.T) {
	for kind, codes := range map[fault.Kind][]fault.Code{
		fault.Transient: {fault.ModelUnavailable, fault.ModelRateLimited, fault.StoreDown, fault.EngineDown},
		fault.Content:   {fault.BadOutput, fault.Unreadable, fault.Encrypted, fault.EmptyDocument, fault.TooLarge},
		fault.Fatal: {
			fault.ModelAuth, fault.ModelQuota, fault.StoreFull, fault.BudgetSpent, fault.Paused, fault.Internal,
		},
		fault.Bad: {fault.Usage, fault.BadConfig, fault.InvalidParam, fault.Precondition, fault.NotFound},
	} {
		for _, code := range codes {
			assert.True(t, code.Kind() == kind && code.At("", "").Kind == kind, "%s heals as %d, want %d", code, code.Kind(),
				kind)
		}
	}
	assert.Equal(t, fault.Fatal, fault.Code("made_up").Kind(), "an unknown code is a fault of this program")
}

func TestAnErrorReadsAsASentence(t *testing.T) {
	for want, err := range map[string]error{
		"read a.txt: no such file (check the path)": fault.NotFound.At("read", "a.txt").
			Because("no such file").Advise("check the path"),
		"read a.txt":          fault.NotFound.At("read", "a.txt"),
		"read: EOF":           fault.NotFound.At("read", "").Because(io.EOF),
		"a.txt":               fault.NotFound.At("", "a.txt"),
		"EOF":                 fault.NotFound.At("", "").Because(io.EOF),
		"not_found":           fault.NotFound.At("", ""),
		"not_found (do this)": fault.NotFound.At("", "").Advise("do this"),
		"wait: 42":            fault.NotFound.At("wait", "").Because(42),
		"wait":                fault.NotFound.At("wait", "").Because(nil),
	} {
		assert.Equal(t, want, err.Error(), "got %q", err)
	}
}

func TestTheOutermostFaultIsTheOneThatCounts(t *testing.T) {
	inner := fault.StoreDown.At("read", "x").Because(io.ErrUnexpectedEOF)
	inner.RetryAfter = 3 * time.Second
	outer := fault.Unreadable.At("parse", "x").Because(inner)
	plain := errors.New("no fault")
	for name, c := range map[string]struct {
		err   error
		code  fault.Code
		kind  fault.Kind
		after time.Duration
	}{
		"a fault":             {inner, fault.StoreDown, fault.Transient, 3 * time.Second},
		"wrapped":             {fmt.Errorf("while: %w", inner), fault.StoreDown, fault.Transient, 3 * time.Second},
		"a fault in a fault":  {outer, fault.Unreadable, fault.Content, 0},
		"joined":              {errors.Join(plain, inner), fault.StoreDown, fault.Transient, 3 * time.Second},
		"unclassified":        {plain, fault.Internal, fault.Fatal, 0},
		"an expired deadline": {fmt.Errorf("call: %w", context.DeadlineExceeded), fault.Internal, fault.Transient, 0},
		"cancelled":           {context.Canceled, fault.Internal, fault.Fatal, 0},
		"nothing":             {nil, "", fault.Transient, 0},
		"a fatal, timed out":  {fault.ModelAuth.At("", "").Because(context.DeadlineExceeded), fault.ModelAuth, fault.Fatal, 0},
	} {
		code, kind, after := fault.CodeOf(c.err), fault.KindOf(c.err), fault.RetryAfter(c.err)
		assert.True(t, code == c.code && kind == c.kind && after == c.after, "%s: %s, kind %d, after %s", name, code, kind,
			after)
		assert.True(t, fault.Is(c.err, c.code) == (c.err != nil) && !fault.Is(c.err, fault.Usage), "%s: Is", name)
	}
	assert.True(t, errors.Is(outer, io.ErrUnexpectedEOF) && fault.As(plain) == nil && fault.As(nil) == nil,
		"the cause is reached, and nothing is made up")
}

// The text of an error never stands where only codes may: a code is what goes into histories.
func TestACodeHoldsNothingOfTheObject(t *testing.T) {
	err := fault.Unreadable.At("read", "secret name.txt").Because("secret text")
	assert.True(t, !strings.Contains(string(fault.CodeOf(err)), "secret"), "%v", fault.CodeOf(err))
}

// A server that asks to be left alone for days is asked again within minutes.
// Promises: 141.
func TestNoServerIsLeftAloneForLongerThanTheLongestWait(t *testing.T) {
	for wish, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, 0: 0, time.Second: time.Second, 72 * time.Hour: 5 * time.Minute, math.MaxInt64: 5 * time.Minute,
	} {
		limited := fault.ModelRateLimited.At("ask", "model")
		limited.RetryAfter = wish
		got := fault.RetryAfter(fmt.Errorf("while asking: %w", limited))
		assert.True(t, got == want, "a server that asks for %s is left alone for %s, want %s", wish, got, want)
	}
	got := fault.RetryAfter(nil)
	assert.True(t, got == 0, "without an error: %s", got)
}
