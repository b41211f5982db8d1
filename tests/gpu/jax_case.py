"""Tests JAX inside a vGPU: it allocates three quarters of the memory that it sees, which must be the quota."""

import jax
import jax.numpy as jnp


def main():
    device = jax.devices("gpu")[0]
    statistics = device.memory_stats() or {}
    limit = statistics.get("bytes_limit", 0)
    assert 0 < limit <= 12 << 30, limit
    x = jax.random.normal(jax.random.PRNGKey(0), (2048, 2048), dtype=jnp.float32)
    product = jax.jit(lambda a: jnp.sum(jnp.dot(a, a.T)))
    value = float(product(x))
    expected = float(jnp.sum(jnp.square(jnp.sum(x, axis=0))))
    assert abs(value - expected) / abs(expected) < 1e-2, (value, expected)
    gradient = jax.grad(lambda w: jnp.mean((x @ w) ** 2))(jnp.ones((2048, 8)))
    assert bool(jnp.isfinite(gradient).all())
    try:
        jnp.ones((16, 1 << 30), dtype=jnp.int8).block_until_ready()
        raise SystemExit("16 GiB were granted")
    except Exception as error:  # the module of jaxlib's exception class differs between versions
        assert "RESOURCE_EXHAUSTED" in str(error) or "emory" in str(error), error
    assert float(jnp.ones(1000).sum()) == 1000
    print(f"good: its limit {limit >> 20} MiB")


main()
