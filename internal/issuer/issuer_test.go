package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

var noon = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

// signing is a key of an issuer.
type signing struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

func (k signing) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.id, Algorithm: string(k.algorithm), Use: "sig"}
}

func ec(t *testing.T, id string) signing {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return signing{id, jose.ES256, key}
}

// signed returns a token of claims.
func (k signing) signed(t *testing.T, claims map[string]any) string {
	t.Helper()
	return signedBy(t, jose.SigningKey{Algorithm: k.algorithm, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}}, claims)
}

func signedBy(t *testing.T, key jose.SigningKey, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(key, nil)
	require.NoError(t, err)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(t, err)
	return token
}

// claims returns valid claims with others in their place; nil removes one.
func claims(changed map[string]any) map[string]any {
	out := map[string]any{
		"iss": "https://issuer.example.com", "aud": []string{"other", "penstock"}, "sub": "system:serviceaccount:ml:trainer",
		"exp": noon.Add(time.Hour).Unix(), "nbf": noon.Unix(), "iat": noon.Unix(),
	}
	for name, value := range changed {
		if out[name] = value; value == nil {
			delete(out, name)
		}
	}
	return out
}

// keySet returns a JWKS.
func keySet(t *testing.T, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	require.NoError(t, err)
	return text
}

func of(t *testing.T, keys ...jose.JSONWebKey) *Issuer {
	t.Helper()
	i := New("https://issuer.example.com", "penstock", func() time.Time { return noon }, nil)
	require.NoError(t, i.SetKeys(keySet(t, keys...)))
	return i
}

// spec: access-9
func TestTokensOfTheIssuerAreAccepted(t *testing.T) {
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for _, key := range []signing{ec(t, "a"), {"b", jose.RS256, large}, {"c", jose.PS256, large}, {"d", jose.EdDSA, edwards}} {
		other := ec(t, "other").public()
		who, err := of(t, other, key.public()).Caller(key.signed(t, claims(nil)))
		require.NoError(t, err, key.algorithm)
		require.Equal(t, "system:serviceaccount:ml:trainer", who.Subject)
	}
	alone := ec(t, "")
	_, err = of(t, alone.public()).Caller(alone.signed(t, claims(nil)))
	require.NoError(t, err, "the only key needs no name")
}

// spec: access-9
func TestTokensWithOtherClaimsAreRefused(t *testing.T) {
	key := ec(t, "a")
	i := of(t, key.public())
	for name, c := range map[string]struct {
		changed map[string]any
		says    string
	}{
		"another issuer":     {map[string]any{"iss": "https://issuer.example.org"}, "another issuer"},
		"no issuer":          {map[string]any{"iss": nil}, "another issuer"},
		"another audience":   {map[string]any{"aud": "storage"}, "another audience"},
		"no audience":        {map[string]any{"aud": nil}, "another audience"},
		"no expiry":          {map[string]any{"exp": nil}, "does not expire"},
		"expired":            {map[string]any{"exp": noon.Add(-skew - time.Second).Unix()}, "expired at 2026-10-01T11:58:59Z"},
		"not yet":            {map[string]any{"nbf": noon.Add(skew + time.Second).Unix()}, "not valid yet"},
		"issued later":       {map[string]any{"iat": noon.Add(skew + time.Second).Unix()}, "not valid yet"},
		"no subject":         {map[string]any{"sub": nil}, "subject"},
		"a broken subject":   {map[string]any{"sub": "two\nlines"}, "subject"},
		"a subject too long": {map[string]any{"sub": strings.Repeat("s", 1000)}, "subject"},
		"a number":           {map[string]any{"sub": 7}, "signature"},
	} {
		_, err := i.Caller(key.signed(t, claims(c.changed)))
		require.Equal(t, fault.Unauthenticated, fault.KindOf(err), name)
		require.ErrorContains(t, err, c.says, name)
	}
	for _, within := range []map[string]any{{"exp": noon.Add(-skew).Unix()}, {"nbf": noon.Add(skew).Unix()}, {"aud": "penstock"}, {"nbf": nil, "iat": nil}} {
		_, err := i.Caller(key.signed(t, claims(within)))
		require.NoError(t, err, within)
	}
}

// spec: access-9
func TestOtherKeysAndAlgorithmsAreRefused(t *testing.T) {
	key, other := ec(t, "a"), ec(t, "a")
	i := of(t, key.public())
	small, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // to be refused
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(key.private.Public())
	require.NoError(t, err)
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"a"}`)) + "." + strings.Split(key.signed(t, claims(nil)), ".")[1] + "."
	embedded := signedBy(t, jose.SigningKey{Algorithm: jose.ES256, Key: other.private}, claims(nil))
	for name, token := range map[string]string{
		"another key of the id":     other.signed(t, claims(nil)),
		"another id":                signing{"b", key.algorithm, key.private}.signed(t, claims(nil)),
		"none":                      none,
		"the public key as secret":  signedBy(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: der, KeyID: "a"}}, claims(nil)),
		"no id, and not the key":    embedded,
		"no token":                  "",
		"a static token":            "pst_" + strings.Repeat("A", 43),
		"two signatures":            key.signed(t, claims(nil)) + "." + "AAAA",
		"encrypted, by its form":    "a.b.c.d.e",
		"an RSA key that is small":  signing{"a", jose.RS256, small}.signed(t, claims(nil)),
		"a line break in its parts": key.signed(t, claims(nil)) + "\n",
	} {
		_, err := i.Caller(token)
		require.Equal(t, fault.Unauthenticated, fault.KindOf(err), name)
	}
	// A key is for its algorithm.
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, err = of(t, signing{"a", jose.RS256, large}.public()).Caller(signing{"a", jose.PS256, large}.signed(t, claims(nil)))
	require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
}

// spec: access-10
func TestKeysRotate(t *testing.T) {
	first, second := ec(t, "1"), ec(t, "2")
	wanted := 0
	i := New("https://issuer.example.com", "penstock", func() time.Time { return noon }, func() { wanted++ })
	_, err := i.Caller(first.signed(t, claims(nil)))
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "no keys yet")
	require.NoError(t, i.SetKeys(keySet(t, first.public())))
	_, err = i.Caller(first.signed(t, claims(nil)))
	require.NoError(t, err)
	require.Equal(t, 1, wanted)
	_, err = i.Caller(second.signed(t, claims(nil)))
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.NotZero(t, fault.As(err).RetryAfter)
	require.Equal(t, 2, wanted)
	require.NoError(t, i.SetKeys(keySet(t, first.public(), second.public())))
	for _, key := range []signing{first, second} {
		_, err = i.Caller(key.signed(t, claims(nil)))
		require.NoError(t, err)
	}
	require.NoError(t, i.SetKeys(keySet(t, second.public())))
	_, err = i.Caller(first.signed(t, claims(nil)))
	require.Error(t, err)
}

func TestSetsWithoutAKeyForSignaturesAreRefused(t *testing.T) {
	key := ec(t, "a")
	i := of(t, key.public())
	small, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // to be refused
	require.NoError(t, err)
	encrypts := key.public()
	encrypts.Use = "enc"
	for name, text := range map[string][]byte{
		"empty": nil, "not a set": []byte(`[]`), "no keys": []byte(`{"keys": []}`), "of an unknown type": []byte(`{"keys": [{"kty": "new"}]}`),
		"a secret":  keySet(t, jose.JSONWebKey{Key: []byte("secret"), KeyID: "a"}),
		"private":   keySet(t, jose.JSONWebKey{Key: key.private, KeyID: "a"}),
		"small":     keySet(t, signing{"a", jose.RS256, small}.public()),
		"for other": keySet(t, encrypts),
	} {
		require.Equal(t, fault.Invalid, fault.KindOf(i.SetKeys(text)), name)
	}
	_, err = i.Caller(key.signed(t, claims(nil)))
	require.NoError(t, err, "the keys stay")
	mixed := []byte(strings.Replace(string(keySet(t, key.public())), `"keys":[`, `"keys":[{"kty": "new"},`, 1))
	require.NoError(t, i.SetKeys(mixed), "keys of other types are left out")
}

// editedTokens is the number of edited tokens that must be refused.
const editedTokens = 10000

// spec: access-9
func TestNoEditedJWTIsAccepted(t *testing.T) {
	key := ec(t, "a")
	i := of(t, key.public())
	token := key.signed(t, claims(nil))
	_, err := i.Caller(token)
	require.NoError(t, err)
	random := mathrand.New(mathrand.NewPCG(1, 2))
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=\n "
	for n := range editedTokens {
		edited := []byte(token)
		at := random.IntN(len(edited))
		if n%100 == 0 {
			at = len(edited) - 1 // whose last bits decoding ignores
		}
		switch c := alphabet[random.IntN(len(alphabet))]; random.IntN(3) {
		case 0:
			edited[at] = c
		case 1:
			edited = append(edited[:at], edited[at+1:]...)
		case 2:
			edited = append(edited[:at], append([]byte{c}, edited[at:]...)...)
		}
		if string(edited) == token {
			continue
		}
		_, err := i.Caller(string(edited))
		require.Error(t, err, "%s", edited)
	}
}

func BenchmarkSubject(b *testing.B) {
	for _, algorithm := range []jose.SignatureAlgorithm{jose.ES256, jose.RS256} {
		var private crypto.Signer
		var err error
		if algorithm == jose.ES256 {
			private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		} else {
			private, err = rsa.GenerateKey(rand.Reader, 2048)
		}
		require.NoError(b, err)
		key := signing{"a", algorithm, private}
		i := New("https://issuer.example.com", "penstock", func() time.Time { return noon }, nil)
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.public()}})
		require.NoError(b, err)
		require.NoError(b, i.SetKeys(text))
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: private, KeyID: "a"}}, nil)
		require.NoError(b, err)
		token, err := jwt.Signed(signer).Claims(claims(nil)).Serialize()
		require.NoError(b, err)
		b.Run(string(algorithm), func(b *testing.B) {
			for b.Loop() {
				_, err := i.Caller(token)
				require.NoError(b, err)
			}
		})
	}
}

// TestOldKeysCheckNothing: keys that were set too long ago accept no token, not even one that they signed, until they are set
// again.
//
// spec: access-25
func TestOldKeysCheckNothing(t *testing.T) {
	now, wanted := noon, 0
	key := ec(t, "a")
	i := New("https://issuer.example.com", "penstock", func() time.Time { return now }, func() { wanted++ })
	i.LimitAge(time.Hour)
	require.NoError(t, i.SetKeys(keySet(t, key.public())))
	token := key.signed(t, claims(map[string]any{"exp": noon.Add(100 * time.Hour).Unix()}))
	check := func(kind fault.Kind) {
		_, err := i.Caller(token)
		require.Equal(t, kind, fault.KindOf(err), "%v", err)
		require.Contains(t, err.Error(), "jwt_keys_max_age")
		require.Positive(t, fault.As(err).RetryAfter)
	}
	now = noon.Add(time.Hour)
	_, err := i.Caller(token)
	require.NoError(t, err)
	require.Zero(t, wanted)
	now = now.Add(time.Nanosecond)
	check(fault.Unavailable)
	require.Equal(t, 1, wanted)
	require.Error(t, i.SetKeys([]byte("{}")), "a failed fetch makes them no younger")
	check(fault.Unavailable)
	require.NoError(t, i.SetKeys(keySet(t, key.public())))
	_, err = i.Caller(token)
	require.NoError(t, err)

	i.LimitAge(0)
	now = noon.Add(99 * time.Hour)
	_, err = i.Caller(token)
	require.NoError(t, err, "there is no limit")
}
