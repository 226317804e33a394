// Package chart renders the chart as Helm does, decodes every object strictly, and checks what a cluster would run. It
// is a module of its own, so that Kubernetes stays out of the product's. make test-servers runs it.
package chart

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// custom has the fields that the chart uses of objects of KEDA and of Prometheus's operator.
type custom struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ScaleTargetRef                                                    struct{ Name string }
		MinReplicaCount, MaxReplicaCount, PollingInterval, CooldownPeriod int
		Triggers                                                          []struct {
			Type              string
			Metadata          map[string]string
			AuthenticationRef struct{ Name string }
		}
		SecretTargetRef []struct{ Parameter, Name, Key string }
		Selector        meta.LabelSelector
		Endpoints       []struct{ Port, Path, Interval string }
	}
}

// release is what a release consists of, and what Helm prints.
type release struct {
	deployments []*apps.Deployment
	pods        map[string]core.PodTemplateSpec // of all, by the names of what makes them
	configs     map[string]string
	selectors   map[string]map[string]string // of services and network policies
	services    []labels.Set                 // their labels
	monitor     map[string]string            // the selector of services to scrape
	there       map[string]bool
	notes       string
}

// render returns a release. A field that Kubernetes does not have is an error. edit is a regular expression, and what
// takes the place of its matches in the objects.
func render(t *testing.T, values string, edit ...string) (*release, error) {
	r := &release{pods: map[string]core.PodTemplateSpec{}, configs: map[string]string{"probes": ""},
		selectors: map[string]map[string]string{}, there: map[string]bool{}}
	set := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(values), &set))
	chart, err := loader.Load("..")
	require.NoError(t, err)
	top, err := util.ToRenderValues(chart, set, common.ReleaseOptions{Name: "night", Namespace: "search"}, nil)
	if err != nil {
		return r, err
	}
	files, err := engine.Render(chart, top)
	for path, text := range files {
		if strings.HasSuffix(path, "NOTES.txt") {
			r.notes = text
			continue
		}
		if edit != nil {
			text = regexp.MustCompile(edit[0]).ReplaceAllString(text, edit[1])
		}
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
			if strings.TrimSpace(document) != "" {
				err = errors.Join(err, r.add(document))
			}
		}
	}
	return r, err
}

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

func (r *release) add(document string) error {
	object, _, err := strict.Decode([]byte(document), nil, nil)
	if runtime.IsNotRegisteredError(err) {
		other := &custom{}
		err = yaml.UnmarshalStrict([]byte(document), other)
		r.there["scaled "+other.Spec.ScaleTargetRef.Name] = true
		if other.Kind == "ServiceMonitor" {
			r.monitor = other.Spec.Selector.MatchLabels
		}
	}
	switch o := object.(type) {
	case *apps.Deployment:
		r.deployments, r.pods[o.Name] = append(r.deployments, o), o.Spec.Template
	case *batch.Job:
		r.pods[o.Name] = o.Spec.Template
	case *core.Pod:
		r.pods[o.Name] = core.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
	case *core.ConfigMap:
		r.configs[o.Name] = o.Data["unweaver.yaml"]
	case *core.Service:
		r.selectors["service "+o.Name], r.services = o.Spec.Selector, append(r.services, o.Labels)
	case *network.NetworkPolicy:
		r.selectors["network policy "+o.Name] = o.Spec.PodSelector.MatchLabels
	case *policy.PodDisruptionBudget:
		r.there["budget "+fmt.Sprint(o.Spec.Selector.MatchLabels)] = true
	}
	if err != nil {
		return fmt.Errorf("%w in\n%s", err, document)
	}
	return nil
}

// secret finds passwords in texts; drained, in a program, how many seconds it takes to end at most.
var (
	secret  = regexp.MustCompile(`://[^/\s]*:[^/\s]+@|(?i)password`)
	image   = regexp.MustCompile(`(^|/)unweaver-[a-z-]+:(v?\d|dev$)`)
	drained = regexp.MustCompile(`(?:Drain:\s+|WithTimeout\(context\.Background\(\), )(\d+) ?\* ?time\.Second`)
)

// complain returns what is wrong with a release.
func (r *release) complain(t *testing.T) string {
	var wrong strings.Builder
	check := func(right bool, format string, args ...any) {
		if !right {
			fmt.Fprintf(&wrong, format+"\n", args...)
		}
	}
	matches := func(selector map[string]string) (found int) {
		for _, pod := range r.pods {
			if labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
				found++
			}
		}
		return found
	}
	for name, config := range r.configs {
		check(!secret.MatchString(config), "%s holds a secret", name)
	}
	for name, selector := range r.selectors {
		check(len(selector) > 0 && matches(selector) > 0, "%s matches no pod", name)
	}
	check(r.monitor == nil || slices.ContainsFunc(r.services, func(service labels.Set) bool {
		return labels.SelectorFromSet(r.monitor).Matches(service)
	}), "the service monitor matches no service")
	for name, pod := range r.pods {
		s, c := pod.Spec.SecurityContext, pod.Spec.Containers[0]
		check(*s.RunAsNonRoot && *s.RunAsUser > 0 && s.FSGroup != nil && s.SeccompProfile.Type == "RuntimeDefault" &&
			!*pod.Spec.AutomountServiceAccountToken, "%s has rights", name)
		own := c.SecurityContext
		check(!*own.AllowPrivilegeEscalation && *own.ReadOnlyRootFilesystem && own.Privileged == nil &&
			fmt.Sprint(own.Capabilities.Drop, own.Capabilities.Add) == "[ALL] []", "%s: its container has rights", name)
		check(image.MatchString(c.Image), "%s runs image %s", name, c.Image)
		for _, volume := range pod.Spec.Volumes {
			r.there[name+volume.Name] = true
			if volume.ConfigMap != nil {
				_, known := r.configs[volume.ConfigMap.Name]
				check(known, "%s: volume %s is of nothing", name, volume.Name)
			}
		}
		for _, mount := range c.VolumeMounts {
			check(r.there[name+mount.Name], "%s mounts %s, which is not there", name, mount.Name)
		}
	}
	for _, d := range r.deployments {
		c := d.Spec.Template.Spec.Containers[0]
		for _, port := range c.Ports {
			r.there[d.Name+port.Name] = true
		}
		for _, probe := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			check(probe != nil && r.there[d.Name+probe.HTTPGet.Port.StrVal], "%s lacks a probe", d.Name)
		}
		source, err := os.ReadFile("../../../" + c.Name + "/main.go")
		require.NoError(t, err)
		drain, err := strconv.Atoi(string(drained.FindSubmatch(source)[1]))
		require.NoError(t, err)
		check(*d.Spec.Template.Spec.TerminationGracePeriodSeconds >= int64(drain)+10, "%s is killed as it drains", d.Name)
		check(!r.there["scaled "+d.Name] || d.Spec.Replicas == nil, "%s has replicas, and KEDA sets them", d.Name)
		own := labels.SelectorFromSet(d.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels))
		check(own && matches(d.Spec.Selector.MatchLabels) == 1, "the selector of %s matches other labels", d.Name)
		check(r.there["budget "+fmt.Sprint(d.Spec.Selector.MatchLabels)], "%s has no disruption budget", d.Name)
	}
	return wrong.String()
}

func TestEveryValuesFileRendersWhatAClusterMayRun(t *testing.T) {
	files, err := filepath.Glob("values/*.yaml")
	require.True(t, err == nil && len(files) == 7, "%v", files)
	for _, file := range append(files, "../kind.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			set := map[string]any{}
			require.NoError(t, yaml.Unmarshal(raw, &set))
			for _, message := range lint.RunAll("..", set, "search").Messages {
				assert.LessOrEqual(t, message.Severity, support.InfoSev, message.Error())
			}
			r, err := render(t, string(raw))
			require.NoError(t, err)
			assert.Empty(t, r.complain(t))
			assert.Equal(t, strings.Contains(file, "role"), strings.Contains(r.notes, "need workers of both roles"), r.notes)
			r.validate(t)
		})
	}
}

// validate has the product read the configuration of each pod, with its variables.
func (r *release) validate(t *testing.T) {
	program := filepath.Join(os.Getenv("UNWEAVER_TEST_BIN"), "unweaver")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("the configuration was not read by the product: UNWEAVER_TEST_BIN: %v", err)
	}
	for name, pod := range r.pods {
		path, command := filepath.Join(t.TempDir(), "unweaver.yaml"), exec.Command(program, "config", "validate")
		require.NoError(t, os.WriteFile(path, []byte(r.configs[pod.Spec.Volumes[0].ConfigMap.Name]), 0o600))
		for _, variable := range pod.Spec.Containers[0].Env {
			command.Env = append(command.Env, variable.Name+"="+variable.Value)
		}
		command.Env = append(command.Env, "UNWEAVER_CONFIG="+path) // the last one counts
		out, err := command.CombinedOutput()
		assert.NoError(t, err, "%s: %s", name, out)
	}
}

// Each check fails once.
func TestWhatAClusterMayNotRunIsFound(t *testing.T) {
	for want, edit := range map[string][2]string{
		" has rights":                  {`runAsUser: 65532`, "runAsUser: 0"},
		"container has rights":         {`readOnlyRootFilesystem: true`, "readOnlyRootFilesystem: false"},
		"runs image":                   {`(unweaver-worker):0.1.0`, "$1:latest"},
		"which is not there":           {`name: cache, mountPath`, "name: other, mountPath"},
		"is of nothing":                {`configMap: { name: night-unweaver }`, "configMap: { name: other }"},
		"matches other labels":         {`component: worker-io\n  template`, "component: worker-cpu\n  template"},
		"lacks a probe":                {`/livez, port: internal`, "/livez, port: other"},
		"is killed as":                 {`(terminationGracePeriodSeconds): 55`, "$1: 54"},
		"KEDA sets them":               {`progressDeadlineSeconds: 1200`, "replicas: 2"},
		"no disruption budget":         {`(?s)(PodDisruptionBudget.*?matchLabels:.*?component: )[a-z-]+`, "${1}other"},
		"matches no pod":               {`(?s)(kind: Service\n.*?component: )query-api`, "${1}other"},
		"policy night-unweaver matc":   {`(?s)(podSelector:.*?instance: )night`, "${1}other"},
		"matches no service":           {`(?s)(kind: ServiceMonitor.*?component: )metrics`, "${1}other"},
		"holds a secret":               {`redis://redis`, "redis://worker:hidden@redis"},
		`unknown field "replicaCount"`: {`minReplicaCount: 0`, "replicaCount: 0"},
		`unknown field "spec.t`:        {`enableServiceLinks: false`, "serviceLinks: false"},
	} {
		r, err := render(t, "keda: { enabled: true }\nserviceMonitor: { enabled: true }", edit[:]...)
		assert.Contains(t, r.complain(t)+fmt.Sprint(err), want)
	}
	for values, want := range map[string]string{
		`config: "stores: { classes: redis://worker:hidden@redis:6379/0 }"`: "holds a secret",
		"env: [{ name: A, value: AKIA" + strings.Repeat("A", 16) + " }]":    "holds a secret",
		`config: "a: [b"`:                       "config is no YAML",
		`image: { tag: latest }`:                "/image/tag",
		`pod: { securityContext: {} }`:          "securityContext",
		`workers: {}`:                           "workers",
		"keda: { enabled: true }\nconfig: '{}'": "engine.address",
	} {
		_, err := render(t, values)
		assert.ErrorContains(t, err, want, values)
	}
}
