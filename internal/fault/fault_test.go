package fault_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
)

// declared reads the constants of type Code from the source, so that one without a kind cannot hide.
func declared(t *testing.T) map[string]fault.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	require.NoError(t, err)
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
			text, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
			require.NoError(t, err)
			codes[name.Name] = fault.Code(text)
		}
		return true
	})
	return codes
}

// Promises: 20.
func TestEveryCodeHasAKindAndANameOfItsOwn(t *testing.T) {
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
			if code.Kind() != kind || code.At("", "").Kind != kind {
				t.Errorf("%s heals as %d, want %d", code, code.Kind(), kind)
			}
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
		"a fatal, timed out": {
			fault.ModelAuth.At("", "").Because(context.DeadlineExceeded), fault.ModelAuth, fault.Fatal, 0,
		},
	} {
		if code, kind, after := fault.CodeOf(c.err), fault.KindOf(c.err), fault.RetryAfter(c.err); code != c.code ||
			kind != c.kind || after != c.after {
			t.Errorf("%s: %s, kind %d, after %s", name, code, kind, after)
		}
		assert.True(t, fault.Is(c.err, c.code) == (c.err != nil) && !fault.Is(c.err, fault.Usage), "%s: Is", name)
	}
	assert.True(t, errors.Is(outer, io.ErrUnexpectedEOF) && fault.As(plain) == nil && fault.As(nil) == nil,
		"the cause is reached, and nothing is made up")
}

// The text of an error never stands where only codes may: a code is what goes into histories.
func TestACodeHoldsNothingOfTheObject(t *testing.T) {
	err := fault.Unreadable.At("read", "secret name.txt").Because("secret text")
	if strings.Contains(string(fault.CodeOf(err)), "secret") {
		t.Error(fault.CodeOf(err))
	}
}
