// Package chart renders the chart as Helm does, compares that with testdata, decodes every object strictly, and checks
// what a cluster would run. It is a module of its own, so that Kubernetes stays out of the product's. make
// test-servers runs it; go test -update in this folder writes testdata anew.
package chart

import (
	"flag"
	"fmt"
	"maps"
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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write testdata anew")

// render returns the objects of a release and what Helm prints, each below the name of its template.
func render(t *testing.T, values string) (documents []string, err error) {
	set := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(values), &set))
	chart, err := loader.Load("..")
	require.NoError(t, err)
	top, err := util.ToRenderValues(chart, set, common.ReleaseOptions{Name: "night.1", Namespace: "search"}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, top)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		for _, text := range regexp.MustCompile(`(?m)^---$`).Split(files[path], -1) {
			if text = strings.TrimSpace(regexp.MustCompile(`\n\s*\n`).ReplaceAllString(text, "\n")); text != "" {
				documents = append(documents, "# "+strings.TrimPrefix(path, "unweaver/templates/")+"\n"+text+"\n")
			}
		}
	}
	return documents, err
}

func TestEveryValuesFileRendersWhatWasReviewed(t *testing.T) {
	defaults, err := render(t, "")
	require.NoError(t, err)
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
			documents, err := render(t, string(raw))
			require.NoError(t, err)
			check(t, documents)
			for at, document := range documents {
				if len(set) > 0 && slices.Contains(defaults, document) {
					name, _, _ := strings.Cut(document, "\n")
					documents[at] = name + ": as in defaults.yaml\n"
				}
			}
			got, golden := strings.Join(documents, "---\n"), "testdata/"+filepath.Base(file)
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), got)
		})
	}
}

var (
	strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	// drained finds in a program how many seconds it takes to end at most.
	drained = regexp.MustCompile(`(?:Drain:\s+|WithTimeout\(context\.Background\(\), )(\d+) ?\* ?time\.Second`)
)

// check decodes the objects of a release, and asserts what a cluster needs of them beside each other.
func check(t *testing.T, documents []string) {
	pods, configs, selectors := map[string]core.PodTemplateSpec{}, map[string]string{}, map[string]map[string]string{}
	for _, document := range documents {
		if strings.HasPrefix(document, "# NOTES.txt") {
			continue
		}
		object, _, err := strict.Decode([]byte(document), nil, nil)
		assert.True(t, err == nil || runtime.IsNotRegisteredError(err), "%v in\n%s", err, document)
		switch o := object.(type) {
		case *apps.Deployment:
			pods[o.Name], selectors[o.Name] = o.Spec.Template, o.Spec.Selector.MatchLabels
			source, err := os.ReadFile("../../../" + o.Spec.Template.Spec.Containers[0].Name + "/main.go")
			require.NoError(t, err)
			drain, err := strconv.Atoi(string(drained.FindSubmatch(source)[1]))
			require.NoError(t, err)
			if life := o.Spec.Template.Spec.Containers[0].Lifecycle; life != nil {
				drain += int(life.PreStop.Sleep.Seconds)
			}
			grace := *o.Spec.Template.Spec.TerminationGracePeriodSeconds
			assert.GreaterOrEqual(t, grace, int64(drain)+10, "%s is killed as it drains", o.Name)
		case *batch.Job:
			pods[o.Name] = o.Spec.Template
		case *batch.CronJob:
			pods[o.Name] = o.Spec.JobTemplate.Spec.Template
		case *core.Pod:
			pods[o.Name] = core.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
		case *core.ConfigMap:
			configs[o.Name] = o.Data["unweaver.yaml"]
		case *core.Service:
			selectors["service "+o.Name] = o.Spec.Selector
		case *network.NetworkPolicy:
			selectors["network policy "+o.Name] = o.Spec.PodSelector.MatchLabels
		}
	}
	for name, selector := range selectors {
		found := 0
		for of, pod := range pods {
			if labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
				found++
				_, deployment := pods[name]
				assert.True(t, !deployment || of == name, "%s selects pods of %s", name, of)
			}
		}
		assert.Positive(t, found, "%s selects no pod", name)
	}
	for name, pod := range pods {
		s, c := pod.Spec.SecurityContext, pod.Spec.Containers[0]
		own, volumes := c.SecurityContext, map[string]bool{}
		rights := fmt.Sprintln(*s.RunAsNonRoot, s.SeccompProfile.Type, *pod.Spec.AutomountServiceAccountToken,
			*own.ReadOnlyRootFilesystem, *own.AllowPrivilegeEscalation, own.Capabilities.Drop, own.Capabilities.Add)
		assert.Equal(t, "true RuntimeDefault false true false [ALL] []\n", rights, name)
		for _, volume := range pod.Spec.Volumes {
			volumes[volume.Name] = true
		}
		for _, mount := range c.VolumeMounts {
			assert.True(t, volumes[mount.Name], "%s mounts %s, which is not there", name, mount.Name)
		}
		require.Contains(t, configs, pod.Spec.Volumes[0].ConfigMap.Name, name)
		validate(t, name, configs[pod.Spec.Volumes[0].ConfigMap.Name], c.Env)
	}
}

// validate has the product read the configuration of a pod, with its variables.
func validate(t *testing.T, name, config string, env []core.EnvVar) {
	program := filepath.Join(os.Getenv("UNWEAVER_TEST_BIN"), "unweaver")
	if _, err := os.Stat(program); err != nil {
		t.Logf("NOT READ BY THE PRODUCT: UNWEAVER_TEST_BIN: %v", err)
		return
	}
	path, command := filepath.Join(t.TempDir(), "unweaver.yaml"), exec.Command(program, "config", "validate")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	for _, variable := range env {
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	command.Env = append(command.Env, "UNWEAVER_CONFIG="+path) // the last one counts
	out, err := command.CombinedOutput()
	assert.NoError(t, err, "%s: %s", name, out)
}

func TestValuesThatAClusterMayNotRunAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		`config: "stores: { classes: redis://worker:hidden@redis:6379/0 }"`: "holds a secret",
		"env: [{ name: A, value: AKIA" + strings.Repeat("A", 16) + " }]":    "holds a secret",
		`config: "a: [b"`:                       "config is no YAML",
		`image: { tag: latest }`:                "/image/tag",
		`pod: { securityContext: {} }`:          "securityContext",
		`workers: {}`:                           "workers",
		"keda: { enabled: true }\nconfig: '{}'": "engine.address",
		"keda: { enabled: true }\nconfig: 'engine: { address: a, tls: true }'":       "engineTLS.existingSecret",
		"env: [{ name: A, value: b }]\nworker: { env: [{ name: A, value: c }] }":     "A of worker is set twice",
		"queryApi: { env: [{ name: UNWEAVER_QUERY_API_ADDRESS, value: 0.0.0.0:1 }]}": "is set twice",
		`env: null`: "'env'",
		`queryApi: { tls: null, service: { port: 65536 } }`: "'tls'",
		`queryApi: { service: { port: 65536 } }`:            "/queryApi/service/port",
	} {
		_, err := render(t, values)
		assert.ErrorContains(t, err, want, values)
	}
}
