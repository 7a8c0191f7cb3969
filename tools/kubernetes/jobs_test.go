package kubernetes

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// testTrainingJobs applies the examples, whose controllers do not run here, and runs the job of the JobSet as a Job of its own: its pods are
// admitted, find nodes with GPUs and a volume, and end.
func (c *cluster) testTrainingJobs(t *testing.T) {
	c.namespace(t, "ml")
	for _, file := range []string{"jobset.yaml", "trainjob.yaml"} {
		for _, one := range readObjects(t, filepath.Join("../../deploy/kubernetes", file)) {
			require.NoError(t, c.apply(t.Context(), "ml", one))
		}
	}
	class := "local-nvme"
	_, err := c.client.CoreV1().PersistentVolumeClaims("ml").Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "ranker-checkpoints"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	set := readObjects(t, "../../deploy/kubernetes/jobset.yaml")[0]
	groups, _, err := unstructured.NestedSlice(set.Object, "spec", "replicatedJobs")
	require.NoError(t, err)
	require.Len(t, groups, 1)
	group, isMap := groups[0].(map[string]any)
	require.True(t, isMap)
	template, isMap := group["template"].(map[string]any)
	require.True(t, isMap)
	job := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "ranker-node-0"}}
	spec, isMap := template["spec"].(map[string]any)
	require.True(t, isMap)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec, &job.Spec, true))
	_, err = c.client.BatchV1().Jobs("ml").Create(t.Context(), &job, metav1.CreateOptions{})
	require.NoError(t, err)
	until(t, c, "jobs", "ml", "", func(jobs map[string]*batchv1.Job) bool {
		return jobs["ranker-node-0"].Status.Succeeded == *job.Spec.Completions
	})
}
