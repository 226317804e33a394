package composecheck

import (
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var required = regexp.MustCompile(`\$\{([A-Z0-9_]+):\?`)

func TestNoSecretHasADefault(t *testing.T) {
	file := load(t)
	secret := regexp.MustCompile(`(?i)(password|secret|pwd|token)`)
	for name, s := range file.Services {
		for variable, value := range s.Environment {
			if secret.MatchString(variable) && !required.MatchString(value) {
				t.Errorf("%s: %s is not required from the environment: %q", name, variable, value)
			}
		}
		for _, argument := range slices.Concat(s.Command, s.Entrypoint) {
			if required.MatchString(argument) {
				t.Errorf("%s has a secret among its arguments, where every process of the host sees it", name)
			}
		}
	}
	for _, m := range regexp.MustCompile(`\$\{([A-Z0-9_]+)(:?-)([^}]*)\}`).FindAllStringSubmatch(file.text, -1) {
		if m[3] != "" {
			t.Errorf("%s has the default %q", m[1], m[3])
		}
	}
	example, err := os.ReadFile("../env.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range required.FindAllStringSubmatch(file.text, -1) {
		if !strings.Contains(string(example), m[1]+"=\n") {
			t.Errorf("%s is not in infra/env.example, or has a value there", m[1])
		}
	}
}

// secretsOf are the required variables that a service is given.
func secretsOf(s service) []string {
	var out []string
	for _, value := range s.Environment {
		for _, m := range required.FindAllStringSubmatch(value, -1) {
			out = append(out, m[1])
		}
	}
	slices.Sort(out)
	return out
}

func TestEachProgramHasItsOwnSecretsAlone(t *testing.T) {
	file := load(t)
	for name, want := range map[string][]string{
		"worker":    {"MILVUS_ROOT_PASSWORD", "REDIS_WORKER_PASSWORD", "S3_WORKER_SECRET"},
		"query-api": {"MILVUS_ROOT_PASSWORD", "REDIS_QUERY_API_PASSWORD", "S3_QUERY_API_SECRET"},
		"cli":       {"MILVUS_ROOT_PASSWORD", "REDIS_CLI_PASSWORD", "S3_CLI_SECRET"},
		"milvus":    {"MILVUS_ROOT_PASSWORD", "S3_MILVUS_SECRET"},
		"temporal":  {"POSTGRES_PASSWORD"},
		"filer":     nil,
	} {
		if got := secretsOf(file.Services[name]); !slices.Equal(got, want) {
			t.Errorf("%s has the secrets %v, want %v", name, got, want)
		}
	}
	for volume, users := range map[string][]string{
		"certs-server": {"certs", "temporal"}, "certs-client": {"certs", "cli", "temporal-namespace", "worker"},
		"certs-s3": {"certs", "s3"},
	} {
		var mounted []string
		for name, s := range file.Services {
			for _, mount := range s.Volumes {
				if source, target, _ := strings.Cut(mount, ":"); source == volume {
					mounted = append(mounted, name)
					if strings.HasSuffix(target, ":ro") == (name == "certs") {
						t.Errorf("%s mounts %s", name, mount)
					}
				}
			}
		}
		slices.Sort(mounted)
		if !slices.Equal(mounted, users) {
			t.Errorf("%s is mounted by %v, want %v", volume, mounted, users)
		}
	}
}

func TestNoStoreAnswersWhoeverAsks(t *testing.T) {
	file := load(t)
	for name, wants := range map[string]map[string]string{
		"milvus": {"COMMON_SECURITY_AUTHORIZATIONENABLED": "true"},
		"temporal": {
			"TEMPORAL_TLS_REQUIRE_CLIENT_AUTH": "true", "TEMPORAL_TLS_FRONTEND_CERT": "/certs/server.pem",
			"TEMPORAL_TLS_CLIENT1_CA_CERT": "/certs/clients.pem", "TEMPORAL_TLS_SERVER_CA_CERT": "/certs/ca.pem",
			"TEMPORAL_TLS_SERVER_CERT": "/certs/server.pem",
		},
		"s3": {"WEED_GRPC_CA": "/certs/ca.pem", "WEED_GRPC_S3_CERT": "/certs/server.pem"},
	} {
		for variable, value := range wants {
			if got := file.Services[name].Environment[variable]; got != value {
				t.Errorf("%s: %s is %q, want %q", name, variable, got, value)
			}
		}
	}
	for name, argument := range map[string]string{
		"redis": "--aclfile /run/users/acl", "s3": "-config=/tmp/identities.json",
	} {
		if !strings.Contains(strings.Join(file.Services[name].Command, " "), argument) {
			t.Errorf("%s does not run with %s", name, argument)
		}
	}
	for _, name := range []string{"worker", "query-api", "cli"} {
		for variable, user := range map[string]string{
			"UNWEAVER_STORES_CLASSES": name, "UNWEAVER_STORES_VECTORS": "root",
		} {
			set := environment(file.Services[name])
			at := slices.IndexFunc(set, func(entry string) bool { return strings.HasPrefix(entry, variable+"=") })
			if at < 0 {
				t.Errorf("%s has no %s", name, variable)
				continue
			}
			u, err := url.Parse(strings.TrimPrefix(set[at], variable+"="))
			if err != nil {
				t.Fatal(err)
			}
			if secret, has := u.User.Password(); u.User.Username() != user || !has || secret == "" {
				t.Errorf("%s: %s is %s, want the user %s", name, variable, u.Redacted(), user)
			}
		}
	}
	etcd, err := os.ReadFile("../milvus/embedEtcd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(etcd), "listen-client-urls: http://127.0.0.1:2379") {
		t.Error("Milvus's etcd listens beyond loopback")
	}
}

// script runs a script of users with secrets, or with others, and gives what it writes.
func script(t *testing.T, path string, names []string, value func(name string) string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", path)
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, name := range names {
		command.Env = append(command.Env, name+"="+value(name))
	}
	out, err := command.Output()
	return string(out), err
}

// password of a user in tests: as long as one should be, and different for each.
func password(name string) string { return strings.ToLower(name) + "-0123456789abcdef" }

var (
	redisSecrets = []string{"REDIS_WORKER_PASSWORD", "REDIS_QUERY_API_PASSWORD", "REDIS_CLI_PASSWORD"}
	s3Secrets    = []string{"S3_WORKER_SECRET", "S3_QUERY_API_SECRET", "S3_CLI_SECRET", "S3_MILVUS_SECRET"}
)

func TestCertificatesAreMadeOnceAndNoAuthoritysKeyIsKept(t *testing.T) {
	root := t.TempDir()
	// Stands for unweaver certs create FOLDER --host NAME: each file holds its name and the host.
	maker := `#!/bin/sh
set -eu
[ "$1 $2 $4" = "certs create --host" ]
mkdir "$3"
for file in ca ca-key server server-key client client-key; do echo "$file of $5 $(date +%N)" >"$3/$file.pem"; done
`
	write(t, filepath.Join(root, "unweaver"), maker, 0o700)
	environment := []string{"PATH=" + os.Getenv("PATH"), "UNWEAVER=" + filepath.Join(root, "unweaver")}
	for variable, folder := range map[string]string{"SERVER": "server", "CLIENT": "client", "S3": "s3"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		environment = append(environment, variable+"="+filepath.Join(root, folder))
	}
	run := func() map[string]string {
		command := exec.CommandContext(t.Context(), "sh", "../images/certs.sh")
		command.Env = environment
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		files := map[string]string{}
		for _, folder := range []string{"server", "client", "s3"} {
			entries, err := os.ReadDir(filepath.Join(root, folder))
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				raw, err := os.ReadFile(filepath.Join(root, folder, entry.Name()))
				if err != nil {
					t.Fatal(err)
				}
				files[folder+"/"+entry.Name()] = string(raw)
				if info, err := entry.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s/%s has the mode %v", folder, entry.Name(), info.Mode())
				}
			}
		}
		return files
	}
	files := run()
	for name, begin := range map[string]string{
		"server/ca.pem": "ca of temporal", "server/server.pem": "server of temporal",
		"server/server-key.pem": "server-key of temporal", "server/clients.pem": "ca of client",
		"client/ca.pem": "ca of temporal", "client/client.pem": "client of client",
		"client/client-key.pem": "client-key of client", "s3/ca.pem": "ca of s3", "s3/server.pem": "server of s3",
		"s3/server-key.pem": "server-key of s3", "server/ready": "", "client/ready": "", "s3/ready": "",
	} {
		if content, ok := files[name]; !ok || !strings.HasPrefix(content, begin) {
			t.Errorf("%s holds %q, want %s", name, content, begin)
		}
	}
	if len(files) != 13 {
		t.Errorf("there are %d files, want 13: %v", len(files), slices.Sorted(maps.Keys(files)))
	}
	if again := run(); !maps.Equal(again, files) {
		t.Error("a second start makes other certificates")
	}
}

func TestASecretThatWouldBreakAFileOfUsersIsRefused(t *testing.T) {
	for path, names := range map[string][]string{
		"../redis/users.sh": redisSecrets, "../seaweedfs/identities.sh": s3Secrets,
	} {
		if _, err := script(t, path, names, password); err != nil {
			t.Errorf("%s refuses good secrets: %v", filepath.Base(path), err)
		}
		for _, bad := range []string{
			"", "short", `0123456789abcdef"`, "0123456789abcdef on nopass", "0123456789abcdef\nuser x on nopass",
			"0123456789abcdef@host", "$(id)-0123456789abcdef",
		} {
			for _, one := range names {
				out, err := script(t, path, names, func(name string) string {
					if name == one {
						return bad
					}
					return password(name)
				})
				if err == nil || out != "" {
					t.Errorf("%s takes %q for %s and writes %q", filepath.Base(path), bad, one, out)
				}
			}
		}
	}
}
