package visibility_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc"

	"github.com/unweaver/unweaver/workflows"
	"github.com/unweaver/unweaver/workflows/visibility"
)

type operator struct {
	known         map[string]enums.IndexedValueType
	adding, lists error
	added         map[string]enums.IndexedValueType
}

func (o *operator) AddSearchAttributes(
	_ context.Context, request *operatorservice.AddSearchAttributesRequest, _ ...grpc.CallOption,
) (*operatorservice.AddSearchAttributesResponse, error) {
	o.added = request.SearchAttributes
	return nil, o.adding
}

func (o *operator) ListSearchAttributes(
	context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption,
) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: o.known}, o.lists
}

func all() map[string]enums.IndexedValueType {
	known := map[string]enums.IndexedValueType{}
	for _, key := range workflows.SearchAttributes() {
		known[key.GetName()] = key.GetValueType()
	}
	return known
}

func TestOnlyWhatIsMissingIsAdded(t *testing.T) {
	known := all()
	delete(known, "UnweaverStage")
	o := &operator{known: known}
	require.NoError(t, visibility.Register(t.Context(), o, "default"))
	assert.True(t, len(o.added) == 1 && o.added["UnweaverStage"] == enums.INDEXED_VALUE_TYPE_KEYWORD, "added %v", o.added)
	o = &operator{known: all()}
	err := visibility.Register(t.Context(), o, "default")
	assert.True(t, err == nil && o.added == nil, "%v, added %v", err, o.added)
}

func TestRegisteringFailsOnlyWhereTheServerSaysNo(t *testing.T) {
	denied := serviceerror.NewPermissionDenied("not yours", "")
	for _, test := range []struct {
		name                string
		adding, lists, want error
	}{
		{"another was faster", serviceerror.NewAlreadyExists("there"), nil, nil}, {"no right to add", denied, nil, denied},
		{"no right to look", nil, denied, denied},
	} {
		o := &operator{adding: test.adding, lists: test.lists}
		assert.ErrorIs(t, visibility.Register(t.Context(), o, "default"), test.want, "%s", test.name)
	}
}

func TestRunsUseTheAttributesOnlyWhenAllAreThereWithTheirType(t *testing.T) {
	text := all()
	text["UnweaverIndex"] = enums.INDEXED_VALUE_TYPE_TEXT
	for name, test := range map[string]struct {
		known map[string]enums.IndexedValueType
		lists error
		want  bool
	}{
		"all there": {all(), nil, true}, "none there": {nil, nil, false}, "one of another type": {text, nil, false},
		"the server is silent": {all(), serviceerror.NewUnavailable("down"), false},
	} {
		got, err := visibility.IsRegistered(t.Context(), &operator{known: test.known, lists: test.lists}, "default")
		assert.True(t, got == test.want && (err != nil) == (test.lists != nil), "%s: %v, %v", name, got, err)
	}
}
