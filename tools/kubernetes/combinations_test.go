package kubernetes

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// combinations is how many combinations of values are drawn.
const combinations = 150

// testCombinations renders the chart with values that are drawn at random. The API server accepts each object, and each pod as the
// controllers make it, in a namespace that enforces the Pod Security Standard "restricted". Each value of the chart is drawn.
func (c *cluster) testCombinations(t *testing.T) {
	const namespace = "combinations"
	c.namespace(t, namespace)
	_, err := c.client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "loader"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(chartFolder, "values.yaml"))
	require.NoError(t, err)
	var left map[string]any
	require.NoError(t, yaml.Unmarshal(text, &left))
	for seed := range uint64(combinations) {
		d := draw{rand.New(rand.NewPCG(seed, seed))} //nolint:gosec // the draws are the same in each run
		from := release{name: d.name(), namespace: namespace}
		values := d.values(t)
		take(left, values)
		for _, object := range from.objects(t, values) {
			require.NoError(t, c.apply(t.Context(), namespace, object, metav1.DryRunAll), "seed %d, release %s: %v", seed, from.name, values)
			if pod := podOf(t, object); pod != nil {
				_, err := c.client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				require.NoError(t, err, "seed %d, release %s: %v", seed, from.name, values)
			}
		}
	}
	require.Empty(t, left, "values that were never drawn")
}

// take removes the values from left.
func take(left, values map[string]any) {
	for name, value := range values {
		inner, isMap := left[name].(map[string]any)
		if drawn, both := value.(map[string]any); isMap && both && len(inner) > 0 {
			take(inner, drawn)
			if len(inner) > 0 {
				continue
			}
		}
		delete(left, name)
	}
}

// podOf returns a pod of a Deployment or StatefulSet as the controller makes it, and nil for other objects.
func podOf(t *testing.T, object *unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	kind := object.GetKind()
	if kind != "Deployment" && kind != "StatefulSet" {
		return nil
	}
	text, err := object.MarshalJSON()
	require.NoError(t, err)
	var owner struct {
		Spec struct {
			Template             corev1.PodTemplateSpec
			VolumeClaimTemplates []corev1.PersistentVolumeClaim
		}
	}
	require.NoError(t, json.Unmarshal(text, &owner))
	pod := &corev1.Pod{ObjectMeta: owner.Spec.Template.ObjectMeta, Spec: owner.Spec.Template.Spec}
	pod.Name = object.GetName() + "-0"
	if kind == "StatefulSet" {
		pod.Spec.Hostname = pod.Name
		pod.Labels["statefulset.kubernetes.io/pod-name"] = pod.Name
		pod.Labels["controller-revision-hash"] = object.GetName() + "-0123456789"
	}
	for _, claim := range owner.Spec.VolumeClaimTemplates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + pod.Name},
		}})
	}
	return pod
}

// draw draws values of the chart that fit together.
type draw struct{ *rand.Rand }

func (d draw) yes() bool { return d.IntN(2) == 0 }

// one returns one of several values.
func one[T any](d draw, of ...T) T { return of[d.IntN(len(of))] }

// name returns the name of a release. Helm allows 53 characters.
func (d draw) name() string {
	return one(d, "loader", "penstock", "a", strings.Repeat("x", 53), strings.Repeat("x", 45)+"penstock")
}

// object returns the name of an object, also one that YAML without quotes reads as a number.
func (d draw) object() string { return one(d, "loader", "a.b", "123", "1e3", "true") }

func (d draw) secret() map[string]any { return map[string]any{"secret": d.object()} }

// values returns values as Helm reads them from a file.
func (d draw) values(t *testing.T) map[string]any {
	t.Helper()
	settings := map[string]any{"max_streams": 1000000, "read_ahead": one[any](d, 0, "64MiB"), "pprof": d.yes(), "log_level": "debug"}
	values := map[string]any{
		"replicas": 1 + d.IntN(5), "maxUnavailable": one[any](d, 1, 3, "10%", "100%"), "ticketKeys": d.secret(), "settings": settings,
		"memoryMiB": one(d, 64, 1001, 65536, 2<<20), "cpu": one[any](d, 1, 0.5, "500m", "2"), "cpuLimit": one[any](d, "", 2, "2500m"), "drainSeconds": one(d, 0, 30, 3600),
		"spool":   map[string]any{"sizeGiB": one(d, 1, 50), "storageClass": one(d, "", d.object())},
		"cache":   map[string]any{"sizeGiB": one(d, 0, 1, 100), "storageClass": one(d, "", d.object())},
		"service": map[string]any{"type": one(d, "ClusterIP", "NodePort", "LoadBalancer"), "port": one(d, 443, 8815)},
		"image": map[string]any{
			"repository": "registry.example.com/penstock", "tag": one(d, "", "1.0"), "digest": one(d, "", "sha256:"+strings.Repeat("0", 64)),
			"pullPolicy": one(d, "Always", "IfNotPresent", "Never"), "pullSecrets": one(d, []any{}, []any{map[string]any{"name": "registry"}}),
		},
	}
	maps.Copy(values, one(d, map[string]any{"config": "datasets: {}"}, map[string]any{"configSecret": d.object()}))
	d.credentials(values, settings)
	d.monitoring(values, settings)
	d.network(values, settings)
	d.pods(values)
	text, err := yaml.Marshal(values)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, yaml.Unmarshal(text, &out))
	return out
}

// credentials draws TLS, and how clients authenticate.
func (d draw) credentials(values, settings map[string]any) {
	if d.IntN(4) == 0 {
		values["insecure"] = true
		return
	}
	certificates := d.IntN(3) == 0
	values["insecure"], values["tls"] = false, map[string]any{"secret": d.object(), "clientCA": certificates}
	switch {
	case d.yes():
		values["tokens"] = d.secret()
	case !certificates || d.yes():
		maps.Copy(settings, map[string]any{"jwt_issuer": "https://issuer.example.com", "jwt_audience": "penstock", "jwt_keys": "https://issuer.example.com/keys"})
	}
	if d.yes() {
		values["files"], settings["policy"] = d.secret(), "/etc/penstock/files/policy.yaml"
	}
}

// monitoring draws metrics, what reads them, and traces.
func (d draw) monitoring(values, settings map[string]any) {
	if d.yes() {
		settings["trace"], settings["trace_every"] = "http://collector.traces.svc:4317", 1000000
	}
	labels := one(d, map[string]any{}, map[string]any{"release": "prometheus"})
	enabled := d.IntN(3) > 0
	values["metrics"] = map[string]any{
		"enabled": enabled, "port": one(d, 9100, 1024),
		"serviceMonitor": map[string]any{
			"enabled": enabled && d.yes(), "labels": labels, "interval": one(d, "30s", "1m30s"), "caSecret": d.object(), "serverName": one(d, "", "loader.example.com"),
			"clientSecret": d.object(), "tokenSecret": d.object(),
		},
		"alerts": map[string]any{"enabled": d.yes(), "labels": labels}, "dashboard": map[string]any{"enabled": d.yes(), "labels": map[string]any{"grafana_dashboard": "1"}},
	}
	values["autoscaling"] = map[string]any{
		"enabled": enabled && d.yes(), "minReplicas": 1, "maxReplicas": 1 + d.IntN(9), "prometheus": "http://prometheus.monitoring.svc:9090",
		"authenticationRef": one(d, "", d.object()), "selector": one(d, "", `job="loaders"`), "maxStall": one(d, 0.05, 0.5), "maxBudget": one(d, 0.7, 1),
	}
}

// network draws a NetworkPolicy that allows what the settings need.
func (d draw) network(values, settings map[string]any) {
	peers := []any{
		map[string]any{"podSelector": map[string]any{}},
		map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"team": "ads"}}},
		map[string]any{"ipBlock": map[string]any{"cidr": "10.0.0.0/8", "except": []any{"10.1.0.0/16"}}},
	}
	some := func(least int) []any {
		d.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
		return slices.Clone(peers[:least+d.IntN(len(peers)+1-least)])
	}
	to := func(least int) map[string]any {
		return map[string]any{"to": some(least), "ports": one(d, []any{443}, []any{443, 8443})}
	}
	least := map[bool]int{true: 1}
	others := []any{}
	if settings["jwt_keys"] != nil || d.yes() {
		others = append(others, to(1))
	}
	values["networkPolicy"] = map[string]any{
		"enabled": d.yes(), "clients": some(1), "prometheus": some(0), "dns": to(0), "storage": to(1), "catalogs": to(0),
		"traces": to(least[settings["trace"] != nil]), "others": others,
	}
}

// pods draws what pods have, and where they run.
func (d draw) pods(values map[string]any) {
	selector := map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": "penstock"}}
	term := map[string]any{"topologyKey": corev1.LabelHostname, "labelSelector": selector}
	of := map[string][]any{
		"env":            {[]any{}, []any{map[string]any{"name": "AWS_SHARED_CREDENTIALS_FILE", "value": "/etc/penstock/files/credentials"}}},
		"envFrom":        {[]any{}, []any{map[string]any{"secretRef": map[string]any{"name": "storage"}}}},
		"serviceAccount": {map[string]any{"name": "default"}, map[string]any{"name": "loader"}},
		"podAnnotations": {map[string]any{}, map[string]any{"prometheus.io/scrape": "true"}},
		"podLabels":      {map[string]any{}, map[string]any{"team": "ads"}},
		"nodeSelector":   {map[string]any{}, map[string]any{"disk": "nvme"}},
		"tolerations":    {[]any{}, []any{map[string]any{"key": "loaders", "operator": "Exists"}}},
		"affinity": {map[string]any{}, map[string]any{"podAntiAffinity": map[string]any{
			"requiredDuringSchedulingIgnoredDuringExecution": []any{term},
		}}},
		"topologySpreadConstraints": {[]any{}, []any{map[string]any{
			"maxSkew": 1, "topologyKey": corev1.LabelTopologyZone, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
		}}},
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		values[name] = one(d, of[name]...)
	}
}
