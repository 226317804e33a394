package engine

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
)

// Identity names an engine by the id of its cluster: hosts reach one server by several addresses. A server that does
// not tell its id, as Temporal Cloud, is named by its address.
func Identity(
	ctx context.Context, service workflowservice.WorkflowServiceClient, configured config.Engine,
) (core.Engine, error) {
	out := core.Engine{
		Cluster: "address:" + configured.Address, Address: configured.Address, Namespace: configured.Namespace,
	}
	response, err := service.GetClusterInfo(ctx, &workflowservice.GetClusterInfoRequest{})
	var denied *serviceerror.PermissionDenied
	var unknown *serviceerror.Unimplemented
	switch {
	case errors.As(err, &denied) || errors.As(err, &unknown):
		return out, nil
	case err != nil:
		return out, ToFault(err, configured)
	case response.GetClusterId() != "":
		out.Cluster = response.GetClusterId()
	}
	return out, nil
}
