package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

const chartFolder = "../../deploy/chart"

// program is the server that tests start.
func programOf(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PENSTOCK_BIN")
	require.NotEmpty(t, path, "PENSTOCK_BIN names no program: run make test-packages")
	return path
}

// rendered is what the chart gives for values.
type rendered struct {
	deployment appsv1.Deployment  // if the servers have no cache
	stateful   appsv1.StatefulSet // if they have one
	service    corev1.Service
	headless   corev1.Service
	config     corev1.Secret
	disruption policyv1.PodDisruptionBudget
	network    networkingv1.NetworkPolicy
	scaling    map[string]any
	monitoring []map[string]any // what the operators of Prometheus and Grafana read
	notes      string
}

// pod returns the pods of the Deployment or StatefulSet, and the labels by which it finds them.
func (r rendered) pod() (corev1.PodTemplateSpec, map[string]string) {
	if r.stateful.Name != "" {
		return r.stateful.Spec.Template, r.stateful.Spec.Selector.MatchLabels
	}
	return r.deployment.Spec.Template, r.deployment.Spec.Selector.MatchLabels
}

func (r rendered) container() corev1.Container {
	pod, _ := r.pod()
	return pod.Spec.Containers[0]
}

// render renders the release `loader`.
func render(values map[string]any) (rendered, error) { return renderAs("loader", values) }

// renderAs renders the chart as helm install does, and decodes what it gives: fields that Kubernetes does not know are errors.
func renderAs(release string, values map[string]any) (rendered, error) {
	chart, err := loader.LoadDir(chartFolder)
	if err != nil {
		return rendered{}, err
	}
	all, err := chartutil.ToRenderValuesWithSchemaValidation(chart, values, chartutil.ReleaseOptions{Name: release, Namespace: "ml", IsInstall: true}, chartutil.DefaultCapabilities, false)
	if err != nil {
		return rendered{}, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return rendered{}, err
	}
	var r rendered
	for name, text := range files {
		if filepath.Base(name) == "NOTES.txt" {
			r.notes = text
			continue
		}
		for one := range strings.SplitSeq(text, "\n---\n") {
			if err := r.decode(filepath.Base(name), []byte(one)); err != nil {
				return r, fmt.Errorf("%s: %w\n%s", name, err, one)
			}
		}
	}
	return r, nil
}

// decode decodes a document of one of the chart's files.
func (r *rendered) decode(file string, text []byte) error {
	var object map[string]any
	if err := yaml.UnmarshalStrict(text, &object); err != nil || len(object) == 0 {
		return err
	}
	kind, _ := object["kind"].(string)
	if file == "monitoring.yaml" {
		r.monitoring = append(r.monitoring, object)
		return nil
	}
	into := map[string]any{
		"Deployment": &r.deployment, "StatefulSet": &r.stateful, "Service": &r.service, "Secret": &r.config,
		"PodDisruptionBudget": &r.disruption, "NetworkPolicy": &r.network, "ScaledObject": &r.scaling,
	}
	to, known := into[kind]
	if !known {
		return fmt.Errorf("the tests do not know the kind %q", kind)
	}
	if spec, _ := object["spec"].(map[string]any); kind == "Service" && spec["clusterIP"] == "None" {
		to = &r.headless
	}
	return yaml.UnmarshalStrict(text, to)
}

// at returns a field of a decoded object.
func at(object map[string]any, path ...string) any {
	for _, name := range path[:len(path)-1] {
		object, _ = object[name].(map[string]any)
	}
	return object[path[len(path)-1]]
}

// With metrics.serviceMonitor, alerts and dashboard, the chart has what makes Prometheus and Grafana use the files of deploy.
func TestChartHasAlertsAndDashboard(t *testing.T) {
	r, err := render(valuesOf(t, "insecure"))
	require.NoError(t, err)
	require.Empty(t, r.monitoring, "off by default")

	r, err = render(valuesOf(t, "tokens"))
	require.NoError(t, err)
	require.Len(t, r.monitoring, 3)
	monitor, rule, board := r.monitoring[0], r.monitoring[1], r.monitoring[2]
	require.Equal(t, []any{"ServiceMonitor", "PrometheusRule", "ConfigMap"}, []any{monitor["kind"], rule["kind"], board["kind"]})
	selector, _ := at(monitor, "spec", "selector", "matchLabels").(map[string]any)
	require.NotEmpty(t, selector)
	for name, value := range selector {
		require.Equal(t, value, r.service.Labels[name])
	}
	require.Equal(t, []any{map[string]any{
		"port": "metrics", "interval": "30s", "scheme": "https",
		"tlsConfig": map[string]any{
			"serverName": "loader-penstock.ml.svc", "ca": map[string]any{"secret": map[string]any{"name": "loader-ca", "key": "ca.crt"}},
		},
		"authorization": map[string]any{"credentials": map[string]any{"name": "prometheus-token", "key": "token"}},
	}}, at(monitor, "spec", "endpoints"))
	require.True(t, slices.ContainsFunc(r.service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "metrics" }))
	require.Contains(t, r.service.Name, "penstock", "the alerts look for jobs whose name has it")
	require.Equal(t, "prometheus", at(rule, "metadata", "labels", "release"))

	var alerts map[string]any
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &alerts))
	require.Equal(t, alerts, rule["spec"])
	text, err = os.ReadFile("../../deploy/grafana/penstock.json")
	require.NoError(t, err)
	require.Equal(t, string(text), at(board, "data", "penstock.json"))
	require.Equal(t, "1", at(board, "metadata", "labels", "grafana_dashboard"))
}

// valuesOf reads one of the sets of values.
func valuesOf(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartFolder, "ci", name+".yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(text, &values))
	return values
}

// What is true of every pod: it runs as another user than root, writes to its spool alone, and has the memory that its budget
// needs.
func TestPodsAreConfined(t *testing.T) {
	for name, memory := range map[string]int64{"insecure": 256, "tokens": 1001, "certificates": 65536, "cache": 8192} {
		t.Run(name, func(t *testing.T) {
			r, err := render(valuesOf(t, name))
			require.NoError(t, err)
			template, selector := r.pod()
			pod, container := template.Spec, r.container()
			require.True(t, *pod.SecurityContext.RunAsNonRoot)
			require.Equal(t, int64(imageUser), *pod.SecurityContext.RunAsUser)
			require.Equal(t, int64(imageGroup), *pod.SecurityContext.FSGroup)
			require.False(t, *pod.AutomountServiceAccountToken)
			require.False(t, *pod.EnableServiceLinks)
			require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
			require.False(t, *container.SecurityContext.AllowPrivilegeEscalation)
			require.Equal(t, []corev1.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop)
			limit := container.Resources.Limits.Memory().Value()
			require.GreaterOrEqual(t, limit, memory*5/4<<20+256<<20)
			require.Less(t, limit, memory*5/4<<20+258<<20)
			require.Contains(t, container.Args, fmt.Sprintf("--memory=%dMiB", memory))
			mounted := map[string]string{}
			for _, m := range container.VolumeMounts {
				mounted[m.Name] = m.MountPath
				require.Equal(t, m.Name != "spool" && m.Name != "cache", m.ReadOnly, m.Name)
			}
			var volumes []string
			for _, v := range pod.Volumes {
				volumes = append(volumes, v.Name)
				if v.Secret != nil {
					require.Equal(t, int32(0o440), *v.Secret.DefaultMode)
				}
			}
			for _, claim := range r.stateful.Spec.VolumeClaimTemplates {
				volumes = append(volumes, claim.Name)
			}
			require.ElementsMatch(t, slices.Collect(maps.Keys(mounted)), volumes)
			for _, arg := range container.Args {
				if _, path, ok := strings.Cut(arg, "=/"); ok {
					require.True(t, slices.ContainsFunc(slices.Collect(maps.Values(mounted)), func(at string) bool { return strings.HasPrefix("/"+path, at+"/") }), arg)
				}
			}
			for _, finds := range []map[string]string{r.service.Spec.Selector, r.headless.Spec.Selector, r.disruption.Spec.Selector.MatchLabels} {
				require.Equal(t, selector, finds)
			}
			for name, value := range selector {
				require.Equal(t, value, template.Labels[name])
			}
		})
	}
}

// What differs: secrets, and the volume of the spool. Probes need none of the secrets.
func TestValuesDecideSecrets(t *testing.T) {
	secrets := func(r rendered) map[string]string {
		found := map[string]string{}
		pod, _ := r.pod()
		for _, v := range pod.Spec.Volumes {
			if v.Secret != nil {
				found[v.Name] = v.Secret.SecretName
			}
		}
		return found
	}
	r, err := render(valuesOf(t, "insecure"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"config": "loader-penstock-config", "tickets": "tickets"}, secrets(r))
	require.Equal(t, "loader-penstock-config", r.config.Name)
	require.Contains(t, r.config.StringData["penstock.yaml"], "ml.impressions")
	requireProbes(t, r.container())
	require.Equal(t, "penstock:0.1.0", r.container().Image)

	r, err = render(valuesOf(t, "tokens"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"config": "loader", "files": "loader-files", "tickets": "loader-tickets", "tls": "loader-tls", "tokens": "loader-tokens"}, secrets(r))
	require.Empty(t, r.config.Name)
	requireProbes(t, r.container())
	require.Contains(t, r.container().Image, "@sha256:")
	require.Equal(t, int32(443), r.service.Spec.Ports[0].Port)
	require.Len(t, r.service.Spec.Ports, 2)
	require.Contains(t, r.container().Args, "--max-streams=64")

	r, err = render(valuesOf(t, "certificates"))
	require.NoError(t, err)
	requireProbes(t, r.container())
	require.Contains(t, r.container().Args, "--tls-client-ca=/etc/penstock/tls/ca.crt")
	spool := r.deployment.Spec.Template.Spec.Volumes[slices.IndexFunc(r.deployment.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "spool" })]
	require.Equal(t, resource.MustParse("201Gi"), spool.Ephemeral.VolumeClaimTemplate.Spec.Resources.Requests[corev1.ResourceStorage])
	require.Equal(t, int64(135), *r.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds)
}

// requireProbes checks that all probes of a container read the health at the address that the server has for them.
func requireProbes(t *testing.T, of corev1.Container) {
	t.Helper()
	for _, probe := range []*corev1.Probe{of.StartupProbe, of.LivenessProbe, of.ReadinessProbe} {
		require.Equal(t, &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("health")}, probe.HTTPGet)
	}
	port := slices.IndexFunc(of.Ports, func(p corev1.ContainerPort) bool { return p.Name == "health" })
	require.Contains(t, of.Args, fmt.Sprintf("--health=:%d", of.Ports[port].ContainerPort))
}

// Values that would serve in the open, or not at all, are refused with what to set.
func TestValuesThatCannotServeAreRefused(t *testing.T) {
	for says, change := range map[string]map[string]any{
		"ticketKeys.secret: name a secret":                                 {"ticketKeys": map[string]any{"secret": ""}},
		"config: write the config file":                                    {"configSecret": ""},
		"config and configSecret are both set":                             {"config": "datasets: {}"},
		"tls.secret: name a secret":                                        {"tls": map[string]any{"secret": ""}},
		"tokens.secret: name a secret":                                     {"tokens": map[string]any{"secret": ""}},
		"metrics.serviceMonitor needs":                                     {"metrics": map[string]any{"serviceMonitor": map[string]any{"enabled": true}}},
		"metrics.serviceMonitor.caSecret":                                  {"metrics": map[string]any{"enabled": true, "serviceMonitor": map[string]any{"enabled": true}}},
		"metrics.serviceMonitor.tokenSecret":                               {"metrics": map[string]any{"enabled": true, "serviceMonitor": map[string]any{"enabled": true, "caSecret": "c"}}},
		"settings.cache_dir: the chart sets it; set cache.sizeGiB instead": {"settings": map[string]any{"cache_dir": "/var/lib/penstock/cache"}},
		"settings.memory: the chart sets it; set memoryMiB instead":        {"settings": map[string]any{"memory": "8GiB"}},
		"settings.listen: the chart sets it":                               {"settings": map[string]any{"listen": ":1"}},
		"additional properties 'max_stream' not allowed":                   {"settings": map[string]any{"max_stream": 1}},
		"got string, want boolean":                                         {"settings": map[string]any{"pprof": "yes"}},
		"podLabels: the chart sets the label app.kubernetes.io/name":       {"podLabels": map[string]any{"app.kubernetes.io/name": "other"}},
		"podAnnotations: the chart sets":                                   {"podAnnotations": map[string]any{"checksum/config": "1"}},
		"metrics.port: it is the port":                                     {"metrics": map[string]any{"enabled": true, "port": 8815}},
		"missing property 'memoryMiB'":                                     {"memoryMiB": nil},
		"networkPolicy.storage.to: list":                                   {"networkPolicy": map[string]any{"enabled": true}},
		"networkPolicy.traces.to: list":                                    {"settings": map[string]any{"trace": "http://collector:4317"}},
		"networkPolicy.others: list":                                       {"settings": map[string]any{"jwt_keys": "https://issuer.example.com/keys"}, "networkPolicy": map[string]any{"enabled": true, "storage": map[string]any{"to": []any{map[string]any{"podSelector": map[string]any{}}}}}},
		"at '/networkPolicy/clients'":                                      {"networkPolicy": map[string]any{"clients": []any{}}},
		"autoscaling needs metrics.enabled":                                {"metrics": map[string]any{"enabled": false, "serviceMonitor": map[string]any{"enabled": false}}, "autoscaling": map[string]any{"enabled": true}},
		"autoscaling.prometheus: set the address":                          {"autoscaling": map[string]any{"enabled": true}},
		"less than autoscaling.minReplicas":                                {"autoscaling": map[string]any{"enabled": true, "prometheus": "http://p", "minReplicas": 5}},
		"additional properties 'memory' not allowed":                       {"memory": "4GiB"},
	} {
		values := valuesOf(t, "tokens")
		maps.Copy(values, change)
		_, err := render(values)
		require.ErrorContains(t, err, says)
	}
}

// The arguments of each set of values start the server, with files of the names that the secrets have, and the probe finds it.
func TestArgumentsOfTheChartServe(t *testing.T) {
	program := programOf(t)
	for _, name := range []string{"insecure", "tokens", "certificates", "cache"} {
		t.Run(name, func(t *testing.T) {
			values := valuesOf(t, name)
			values["memoryMiB"] = 64
			r, err := render(values)
			require.NoError(t, err)
			root := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/penstock"), 0o700))
			require.NoError(t, os.MkdirAll(filepath.Join(root, "var/cache/penstock"), 0o775)) //nolint:gosec // as the kubelet makes it for fsGroup
			writeSecrets(t, program, root)
			var args []string
			for _, arg := range r.container().Args {
				arg = regexp.MustCompile(`=/(etc|var)/`).ReplaceAllString(arg, "="+root+"/$1/")
				args = append(args, regexp.MustCompile(`^(--listen|--metrics|--health)=:\d+$`).ReplaceAllString(arg, "$1=127.0.0.1:0"))
			}
			server := exec.CommandContext(t.Context(), program, args...)
			server.Env = append(os.Environ(), "TOKEN=secret")
			_, log := begin(t, server)
			requireHealthy(t, log)
			require.NoError(t, server.Process.Signal(os.Interrupt))
			require.NoError(t, server.Wait(), log())
		})
	}
}

// requireHealthy waits until the probes of a server succeed, at the address that its log names.
func requireHealthy(t *testing.T, log func() string) {
	t.Helper()
	require.Eventually(t, func() bool {
		found := regexp.MustCompile(`"msg":"health","listen":"([^"]+)"`).FindStringSubmatch(log())
		if found == nil {
			return false
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+found[1]+"/healthz", http.NoBody)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
}

// begin starts a server, and returns the address that it prints, and a function that returns its log.
func begin(t *testing.T, server *exec.Cmd) (address string, log func() string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	log = func() string {
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		return string(text)
	}
	server.Stderr = file
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	if address = firstLine(out); address == "" {
		_ = server.Wait()
		require.Fail(t, "the server does not start", log())
	}
	return address, log
}

// firstLine returns the first line that a program prints; "" if it ends before.
func firstLine(from io.Reader) string {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := from.Read(one)
		if n == 0 || err != nil {
			return ""
		}
		if one[0] == '\n' {
			return string(line)
		}
		line = append(line, one[0])
	}
}

// writeSecrets writes the files that the chart mounts.
func writeSecrets(t *testing.T, program, root string) {
	t.Helper()
	etc := filepath.Join(root, "etc", "penstock")
	at := func(name string) string { return filepath.Join(etc, name) }
	for _, folder := range []string{"config", "files", "tickets", "tls", "tokens"} {
		require.NoError(t, os.MkdirAll(at(folder), 0o700))
	}
	require.NoError(t, os.WriteFile(at("config/penstock.yaml"), []byte("catalogs: {default: {type: directory, warehouse: 'file:///tmp'}}\ndatasets: {d: {training: {table: a.b}, key: [k]}}\n"), 0o600))
	require.NoError(t, os.WriteFile(at("files/policy.yaml"), []byte("rules: [{subjects: ['*'], read: ['*']}]\n"), 0o600))
	require.NoError(t, os.WriteFile(at("tickets/tickets.keys"), []byte("k1 "+strings.Repeat("QUJD", 11)+"\n"), 0o600))
	said, err := exec.CommandContext(t.Context(), "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", //nolint:gosec // its own folder
		"-addext", "subjectAltName=DNS:localhost", "-keyout", at("tls/tls.key"), "-out", at("tls/tls.crt")).CombinedOutput()
	require.NoError(t, err, string(said))
	certificate, err := os.ReadFile(at("tls/tls.crt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(at("tls/ca.crt"), certificate, 0o600))
	said, err = exec.CommandContext(t.Context(), program, "token", "new", "--subject", "trainers", "--tokens", at("tokens/server.tokens")).CombinedOutput()
	require.NoError(t, err, string(said))
}
