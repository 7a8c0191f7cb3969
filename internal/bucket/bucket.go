// Package bucket computes Iceberg's bucket transform over Arrow arrays, and
// defines which buckets of two tables can share keys.
//
// The hash is that of the Iceberg specification, Appendix B: murmur3_x86_32
// with seed 0. It depends on a value's Iceberg type alone, so int and long
// hash alike, and so do timestamps of either unit (after flooring to
// microseconds). A value's bucket of n is its hash without the sign bit,
// modulo n; a null has no bucket.
//
// The package is pure: it returns the same result for the same bytes on every
// machine, does not allocate per value, and retains none of its input.
package bucket

// Null is the bucket number of a row whose value is null.
const Null int32 = -1

// Overlap returns the number of residue classes by which the buckets of two
// tables with n and m buckets are matched: their greatest common divisor g. A
// key can lie in bucket b of n and in bucket c of m exactly when b and c agree
// modulo g. n and m must be positive.
func Overlap(n, m int) int {
	for m != 0 {
		n, m = m, n%m
	}
	return n
}

// Factors returns the prime factors of n in ascending order, with multiplicity:
// those of 12 are 2, 2, 3. 1 has none. n must be positive.
func Factors(n int) []int {
	var factors []int
	for p := 2; p*p <= n; p++ {
		for n%p == 0 {
			factors = append(factors, p)
			n /= p
		}
	}
	if n > 1 {
		factors = append(factors, n)
	}
	return factors
}

// Digits returns the digits of bucket b of n in the mixed radix of the prime
// factors of n, lowest digit first. Buckets sorted by their digits are in
// digit-reversed order (for 16: 0, 8, 4, 12, 2, ...), where the buckets of a
// residue class modulo any product of leading factors are contiguous.
func Digits(b, n int) []int {
	digits := Factors(n)
	for i, p := range digits {
		digits[i] = b % p
		b /= p
	}
	return digits
}
