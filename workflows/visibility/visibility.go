// Package visibility makes the search attributes of runs known to a Temporal server. Workers register them when they
// start; a starter looks for them and gives the result to its runs, so that a run's history depends on its input alone.
package visibility

import (
	"context"
	"errors"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc"

	"github.com/unweaver/unweaver/workflows"
)

// Operator is the part of client.Client's OperatorService that is needed.
type Operator interface {
	AddSearchAttributes(
		ctx context.Context, request *operatorservice.AddSearchAttributesRequest, options ...grpc.CallOption,
	) (*operatorservice.AddSearchAttributesResponse, error)
	ListSearchAttributes(
		ctx context.Context, request *operatorservice.ListSearchAttributesRequest, options ...grpc.CallOption,
	) (*operatorservice.ListSearchAttributesResponse, error)
}

// Register adds the attributes that the namespace does not have yet. It may be called at any time, by many at once.
func Register(ctx context.Context, operator Operator, namespace string) error {
	missing, err := findMissing(ctx, operator, namespace)
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	var exists *serviceerror.AlreadyExists
	if errors.As(err, &exists) { // another worker was faster
		return nil
	}
	return err
}

// IsRegistered reports whether the namespace has all of them; only then may a run be started with
// workflows.Build.SearchAttributes.
func IsRegistered(ctx context.Context, operator Operator, namespace string) (bool, error) {
	missing, err := findMissing(ctx, operator, namespace)
	return err == nil && len(missing) == 0, err
}

func findMissing(ctx context.Context, operator Operator, namespace string) (map[string]enums.IndexedValueType, error) {
	known, err := operator.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	missing := map[string]enums.IndexedValueType{}
	for _, key := range workflows.SearchAttributes() {
		if known.GetCustomAttributes()[key.GetName()] != key.GetValueType() {
			missing[key.GetName()] = key.GetValueType()
		}
	}
	return missing, nil
}
