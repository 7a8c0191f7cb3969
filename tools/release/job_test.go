package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The job that penstock ui shows has only fields that Kubernetes knows, the container's memory is that of the chart for the same budget, and
// secrets are named, never written.
//
// spec: ui-25
func TestJobOfPages(t *testing.T) {
	text, err := os.ReadFile("../../cmd/penstock/ui/testdata/job.yaml")
	require.NoError(t, err)
	var job batchv1.Job
	require.NoError(t, yaml.UnmarshalStrict(text, &job))
	require.Equal(t, []string{"batch/v1", "Job", "promote-home"}, []string{job.APIVersion, job.Kind, job.Name})
	pod := job.Spec.Template.Spec
	require.Equal(t, corev1.RestartPolicyNever, pod.RestartPolicy)
	require.Len(t, pod.Containers, 1)
	container := pod.Containers[0]
	require.Equal(t, []string{"promote", "--config=/etc/penstock/config/penstock.yaml", "--progress=json", "--", "home", "history"}, container.Args)
	require.Equal(t, "penstock:0.1.0", container.Image)

	values := valuesOf(t, "insecure")
	values["memoryMiB"] = 4096
	r, err := render(values)
	require.NoError(t, err)
	chart := r.deployment.Spec.Template.Spec
	require.Equal(t, chart.SecurityContext, pod.SecurityContext)
	require.Equal(t, r.container().SecurityContext, container.SecurityContext)
	require.Equal(t, "4096MiB", container.Env[0].Value)
	limits, ofChart := container.Resources.Limits, r.container().Resources.Limits
	require.Equal(t, ofChart.Memory().Value(), limits.Memory().Value())

	require.Equal(t, "penstock-storage", container.EnvFrom[0].SecretRef.Name)
	mounts := map[string]string{}
	for _, m := range container.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	require.Len(t, pod.Volumes, len(mounts))
	for _, v := range pod.Volumes {
		require.Contains(t, mounts, v.Name)
	}
	require.Equal(t, "penstock-config", pod.Volumes[0].ConfigMap.Name)
}
