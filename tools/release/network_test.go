package main

import (
	"crypto/x509"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// The policy of the network allows exactly what the values name. An empty list of destinations allows none: a rule without `to` would allow
// all.
func TestTheNetworkAllowsWhatIsNamed(t *testing.T) {
	r, err := render(valuesOf(t, "insecure"))
	require.NoError(t, err)
	require.Empty(t, r.network.Name, "off by default")

	values := valuesOf(t, "tokens")
	r, err = render(values)
	require.NoError(t, err)
	_, selector := r.pod()
	require.Equal(t, selector, r.network.Spec.PodSelector.MatchLabels)
	require.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, r.network.Spec.PolicyTypes)
	require.Equal(t, map[string]string{
		"TCP 8815": "[{}] [team=ads] 10.8.0.0/16", "TCP 9100": "[kubernetes.io/metadata.name=monitoring]",
	}, incoming(r.network))
	require.Equal(t, map[string]string{
		"UDP 53, TCP 53": "[k8s-app=kube-dns kubernetes.io/metadata.name=kube-system]",
		"TCP 443":        "0.0.0.0/0 except 10.0.0.0/8 169.254.0.0/16", "TCP 8181": "[kubernetes.io/metadata.name=catalogs]", "TCP 80": "169.254.169.254/32",
	}, outgoing(r.network))

	page, err := os.ReadFile("../../docs/kubernetes.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```\n(networkPolicy:.*?)```").FindSubmatch(page)
	require.Len(t, block, 2)
	require.NoError(t, yaml.Unmarshal(block[1], &values), "the example of the page takes the place of that of the file")
	r, err = render(values)
	require.NoError(t, err)
	require.Len(t, r.network.Spec.Egress, 5)

	values = valuesOf(t, "tokens")
	values["metrics"] = map[string]any{"enabled": false, "serviceMonitor": map[string]any{"enabled": false}}
	policy, isMap := values["networkPolicy"].(map[string]any)
	require.True(t, isMap)
	policy["dns"] = map[string]any{"to": []any{}}
	policy["catalogs"] = map[string]any{"to": []any{}}
	policy["others"] = []any{}
	r, err = render(values)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"TCP 8815": "[{}] [team=ads] 10.8.0.0/16"}, incoming(r.network))
	require.Equal(t, map[string]string{"TCP 443": "0.0.0.0/0 except 10.0.0.0/8 169.254.0.0/16"}, outgoing(r.network))
}

// incoming returns who may connect, by port.
func incoming(policy networkingv1.NetworkPolicy) map[string]string {
	out := map[string]string{}
	for _, rule := range policy.Spec.Ingress {
		out[portsOf(rule.Ports)] = peersOf(rule.From)
	}
	return out
}

// outgoing returns to what the servers may connect, by port.
func outgoing(policy networkingv1.NetworkPolicy) map[string]string {
	out := map[string]string{}
	for _, rule := range policy.Spec.Egress {
		out[portsOf(rule.Ports)] = peersOf(rule.To)
	}
	return out
}

func portsOf(ports []networkingv1.NetworkPolicyPort) string {
	var out []string
	for _, port := range ports {
		out = append(out, string(*port.Protocol)+" "+port.Port.String())
	}
	return strings.Join(out, ", ")
}

func peersOf(peers []networkingv1.NetworkPolicyPeer) string {
	var out []string
	for _, peer := range peers {
		if peer.IPBlock != nil {
			one := peer.IPBlock.CIDR
			if len(peer.IPBlock.Except) > 0 {
				one += " except " + strings.Join(peer.IPBlock.Except, " ")
			}
			out = append(out, one)
			continue
		}
		var labels []string
		for _, selector := range []*metav1.LabelSelector{peer.PodSelector, peer.NamespaceSelector} {
			if selector == nil {
				continue
			}
			if len(selector.MatchLabels) == 0 {
				labels = append(labels, "{}")
			}
			for name, value := range selector.MatchLabels {
				labels = append(labels, name+"="+value)
			}
		}
		out = append(out, "["+strings.Join(labels, " ")+"]")
	}
	return strings.Join(out, " ")
}

// The certificate that docs/kubernetes.md makes has the names that clients and Prometheus check.
func TestCertificateHasTheNamesThatAreChecked(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubernetes.md")
	require.NoError(t, err)
	lines := regexp.MustCompile(`subjectAltName=(\S+)`).FindAllSubmatch(page, -1)
	require.Len(t, lines, 2)
	values := valuesOf(t, "tokens")
	r, err := render(values)
	require.NoError(t, err)
	endpoints, _ := at(r.monitoring[0], "spec", "endpoints").([]any)
	require.Len(t, endpoints, 1)
	endpoint, _ := endpoints[0].(map[string]any)
	checked, _ := at(endpoint, "tlsConfig", "serverName").(string)
	for _, line := range lines {
		var certificate x509.Certificate
		for name := range strings.SplitSeq(strings.TrimSuffix(string(line[1]), ")"), ",") {
			certificate.DNSNames = append(certificate.DNSNames, strings.TrimPrefix(name, "DNS:"))
		}
		for _, name := range []string{checked, r.headless.Name + ".ml.svc", r.service.Name + ".ml.svc"} {
			require.NoError(t, certificate.VerifyHostname(name))
		}
	}
}

// Values of any size are arguments that the server can read. Names of objects have room for what controllers add to them.
func TestValuesAreWrittenAsTheServerReadsThem(t *testing.T) {
	values := valuesOf(t, "cache")
	values["memoryMiB"], values["settings"] = 2<<20, map[string]any{"trace_every": 1000000, "advertise": []any{"grpc://a:1", "grpc://b:1"}, "pprof": true}
	// As Helm reads them from a file: numbers are floats.
	text, err := yaml.Marshal(values)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &values))
	r, err := render(values)
	require.NoError(t, err)
	for _, want := range []string{"--memory=2097152MiB", "--trace-every=1000000", "--advertise=grpc://a:1,grpc://b:1", "--pprof=true"} {
		require.Contains(t, r.container().Args, want)
	}
	for _, name := range []string{strings.Repeat("x", 53), strings.Repeat("x", 45) + "penstock"} {
		r, err := renderAs(name, valuesOf(t, "cache"))
		require.NoError(t, err)
		require.LessOrEqual(t, len(r.stateful.Name), 52, "its pods have a label of this name and ten more characters")
		require.LessOrEqual(t, len(r.headless.Name), 63)
		require.Contains(t, r.stateful.Name, "penstock", "the alerts look for jobs whose name has it")
	}
}

// Credentials are files. The chart writes none into an argument or a variable.
func TestCredentialsAreFiles(t *testing.T) {
	for _, name := range []string{"insecure", "tokens", "certificates", "cache"} {
		values := valuesOf(t, name)
		given, _ := values["env"].([]any)
		r, err := render(values)
		require.NoError(t, err)
		require.Len(t, r.container().Env, len(given))
		for _, env := range r.container().Env {
			require.Empty(t, env.Value)
			require.NotNil(t, env.ValueFrom.SecretKeyRef)
		}
		pod, _ := r.pod()
		for _, volume := range pod.Spec.Volumes {
			require.Nil(t, volume.ConfigMap, "the config file may have credentials")
			require.Nil(t, volume.HostPath)
		}
	}
}
