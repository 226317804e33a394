package httpapi

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// route is a method of a control as it is carried: a request of its arguments, an answer with its result.
type route struct {
	name string
	in   reflect.Type // of the request: that of its one argument, or an object with each by its name
	one  bool
}

// routeOf reads the tag of a method: its name, and those of its arguments where these are not one request.
func routeOf(tag string, method reflect.Type) route {
	names := strings.Fields(tag)
	out := route{name: names[0], one: len(names) == 1 && method.NumIn() == 2}
	if out.one {
		out.in = method.In(1)
		return out
	}
	var fields []reflect.StructField
	for i, name := range names[1:] {
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("Argument%d", i), Type: method.In(i + 1), Tag: reflect.StructTag(`json:"` + name + `"`),
		})
	}
	out.in = reflect.StructOf(fields)
	return out
}

// serve serves a method: the request as JSON, the result with 200, a fault with 409.
func (r route) serve(mux *http.ServeMux, method reflect.Value) {
	mux.HandleFunc("POST "+Prefix+r.name, func(w http.ResponseWriter, request *http.Request) {
		in := reflect.New(r.in)
		if err := readRequest(r.name, io.LimitReader(request.Body, longestBody), in.Interface()); err != nil {
			writeAnswer(w, http.StatusConflict, toProblem(err))
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(request.Body, longestBody)) // its end ends the body's deadline
		arguments := []reflect.Value{reflect.ValueOf(request.Context())}
		if r.one {
			arguments = append(arguments, in.Elem())
		}
		for i := range method.Type().NumIn() - len(arguments) {
			arguments = append(arguments, in.Elem().Field(i))
		}
		results := method.Call(arguments)
		if err, failed := results[len(results)-1].Interface().(error); failed {
			writeAnswer(w, http.StatusConflict, toProblem(err))
		} else if len(results) == 1 {
			writeAnswer(w, http.StatusOK, struct{}{})
		} else {
			writeAnswer(w, http.StatusOK, results[0].Interface())
		}
	})
}

// call makes a method that asks a server for what it does.
func (r route) call(client *Client, method reflect.Type) reflect.Value {
	return reflect.MakeFunc(method, func(arguments []reflect.Value) (results []reflect.Value) {
		ctx, _ := arguments[0].Interface().(context.Context)
		in := reflect.New(r.in).Elem()
		if r.one {
			in = arguments[1]
		} else {
			for i, argument := range arguments[1:] {
				in.Field(i).Set(argument)
			}
		}
		out := reflect.New(reflect.TypeFor[struct{}]())
		if method.NumOut() == 2 {
			out = reflect.New(method.Out(0))
			results = append(results, out.Elem())
		}
		err := client.ask(ctx, r.name, in.Interface(), out.Interface())
		return append(results, reflect.ValueOf(&err).Elem())
	})
}

// addRoutes serves each method of a control or a keeper.
func addRoutes[Calls any](mux *http.ServeMux, calls *Calls) {
	for field, method := range reflect.ValueOf(calls).Elem().Fields() {
		routeOf(field.Tag.Get("call"), field.Type).serve(mux, method)
	}
}

// NewClient returns a client of the server at an address (http://host:port).
func NewClient(base, token string) *Client {
	out := &Client{Control: &control.Calls{}, Keys: &access.Calls{}, base: base, token: token}
	for _, calls := range []any{out.Control, out.Keys} {
		for field, method := range reflect.ValueOf(calls).Elem().Fields() {
			method.Set(routeOf(field.Tag.Get("call"), field.Type).call(out, field.Type))
		}
	}
	return out
}

// guardRights returns a control that changes nothing about labels, and shows no documents, for who may not read all of
// them, and that follows no links out of a corpus for who does not own the installation.
func guardRights(c control.Control) control.Control {
	out := *c
	out.MoveGeneration = func(ctx context.Context, in control.MoveRequest) (core.Move, error) {
		in.KeepLabels = in.KeepLabels || !readersOf(ctx).All
		return c.MoveGeneration(ctx, in)
	}
	out.ChangeBranch = func(ctx context.Context, in control.BranchRequest) (core.Branch, error) {
		for key := range in.Set {
			if (key == "corpus" || strings.HasPrefix(key, "documents.labels")) && !readersOf(ctx).All {
				return core.Branch{}, fault.Forbidden.At("branch", in.Index).
					Because("it sets " + key + ", which decides who may read the branch").
					Advise("use a key that may read every document (--labels '*'), or the token")
			}
		}
		return c.ChangeBranch(ctx, in)
	}
	out.WatchQuestions = func(ctx context.Context, in control.WatchRequest) ([]core.Question, error) {
		if !readersOf(ctx).All {
			in.Readers = readersOf(ctx)
		}
		return c.WatchQuestions(ctx, in)
	}
	out.BuildIndex = func(ctx context.Context, in control.IndexRequest) (control.Run, error) {
		if err := refuseLinks(ctx, in.Spec); err != nil {
			return control.Run{}, err
		}
		return c.BuildIndex(ctx, in)
	}
	out.EstimateBuild = func(ctx context.Context, in control.IndexRequest) (core.Estimated, error) {
		if err := refuseLinks(ctx, in.Spec); err != nil {
			return core.Estimated{}, err
		}
		return c.EstimateBuild(ctx, in)
	}
	out.ApplySchedule = func(ctx context.Context, in control.ScheduleRequest) (control.Applied, error) {
		if err := refuseLinks(ctx, in.Spec); err != nil {
			return control.Applied{}, err
		}
		return c.ApplySchedule(ctx, in)
	}
	return &out
}

// refuseLinks refuses a specification that follows links, unless the owner of the installation sends it.
func refuseLinks(ctx context.Context, spec core.Spec) error {
	if !spec.FollowLinks || !control.OfAnother(ctx) {
		return nil
	}
	return fault.Forbidden.At("configure", spec.Index).
		Because("it sets follow_links, which has the server read files outside the corpus").
		Advise("set it in the configuration of the server; or use the token of its data directory, or a key of scope admin")
}

// asEncoded reads what encoding/json writes; its errors name the place of a value.
var asEncoded = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false))

// readRequest reads the JSON value of a request. An error names a field by its path.
func readRequest(name string, body io.Reader, in any) error {
	err := jsonv2.UnmarshalDecode(jsontext.NewDecoder(body, asEncoded), in, asEncoded)
	var form *jsontext.SyntacticError
	var meaning *jsonv2.SemanticError
	why := ""
	switch {
	case err == nil:
		return nil
	case errors.As(err, &meaning) && meaning.GoType != nil:
		why = "it has the wrong type"
		isText := meaning.JSONKind == '"' && reflect.PointerTo(meaning.GoType).Implements(textReader)
		if isText && meaning.Err != nil {
			why = meaning.Err.Error() // what the type says of a text
		}
		if field := strings.Join(slices.Collect(meaning.JSONPointer.Tokens()), "."); field != "" {
			why = field + ": " + why
		}
	case errors.As(err, &form):
		why = "it is not valid JSON: " + form.Err.Error()
	case errors.Is(err, io.EOF):
		why = "it is empty"
	default:
		return fault.Usage.At("read the request", name).Because(err)
	}
	return fault.Usage.At("read the request", name).Because(why).Advise("send one JSON object")
}

var textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
