#!/usr/bin/env python3
"""instructions.py TARGET: writes PTX for a target (sm_90a), with one instruction or sequence in each kernel.

A kernel's name says what it contains: t for tensor-core instructions, m for instructions of mixed precision. The first
digit after the letter stands for the PTX, the second one for the machine code. For example, t11m10_… has tensor-core
instructions in both, and instructions of mixed precision in the PTX only."""
import sys

HOPPER, ADA = [90], [89]
SERVER, CLIENT = [100, 103, 110], [120, 121]
BLACKWELL = SERVER + CLIENT
AMPERE = [80, 86, 87, 88]
SINCE_AMPERE = AMPERE + ADA + HOPPER + BLACKWELL
ALL = [75] + SINCE_AMPERE
SINCE_ADA = ADA + HOPPER + BLACKWELL


def registers(letter, first, count):
    return "{" + ",".join(f"%{letter}{i}" for i in range(first, first + count)) + "}"


def r(first, count):
    return registers("r", first, count)


def f(first, count):
    return registers("f", first, count)


def g(first, count):
    return registers("g", first, count)


def mma(shape, types, d, a, b, before="", after=""):
    return f"mma{before}.sync.aligned.{shape}.row.col.{types} {d},{a},{b},{d}{after};"


ROWS = []  # each row has the name, the architectures, the expected report, and the PTX


def row(name, architectures, expected, text):
    ROWS.append((name, architectures, expected, text))


FULL, PURE, NONE = "t11m11", "t11m00", "t00m00"


def floats():
    m8 = "mma.sync.aligned.m8n8k4.row.col."
    row("mma_m8n8k4_f32", [75], FULL, f"{m8}f32.f16.f16.f32 {f(0, 8)},{r(0, 2)},{r(4, 2)},{f(0, 8)};")
    row("mma_m8n8k4_f16", [75], PURE, f"{m8}f16.f16.f16.f16 {r(10, 4)},{r(0, 2)},{r(4, 2)},{r(10, 4)};")
    # Ampere and later devices lack this instruction. ptxas translates it to code that does not use tensor cores.
    row("mma_m8n8k4_f32", SINCE_AMPERE, "t10m10", f"{m8}f32.f16.f16.f32 {f(0, 8)},{r(0, 2)},{r(4, 2)},{f(0, 8)};")
    row("mma_m8n8k4_f16", SINCE_AMPERE, "t10m00", f"{m8}f16.f16.f16.f16 {r(10, 4)},{r(0, 2)},{r(4, 2)},{r(10, 4)};")
    for k, a, b, where in ((8, 2, 1, ALL), (16, 4, 2, SINCE_AMPERE)):
        row(f"mma_k{k}_f32", where, FULL, mma(f"m16n8k{k}", "f32.f16.f16.f32", f(0, 4), r(0, a), r(8, b)))
        row(f"mma_k{k}_f16", where, PURE, mma(f"m16n8k{k}", "f16.f16.f16.f16", r(20, 2), r(0, a), r(8, b)))
        row(f"mma_k{k}_bf16", SINCE_AMPERE, FULL, mma(f"m16n8k{k}", "f32.bf16.bf16.f32", f(0, 4), r(0, a), r(8, b)))
        row(f"mma_k{k}_tf32", SINCE_AMPERE, FULL,
            mma(f"m16n8k{k // 2}", "f32.tf32.tf32.f32", f(0, 4), r(0, a), r(8, b)))
    row("mma_f64", SINCE_AMPERE, PURE, mma("m8n8k4", "f64.f64.f64.f64", g(0, 2), g(4, 1), g(5, 1)))
    for k, a, b in ((4, 2, 1), (8, 4, 2), (16, 8, 4)):
        row(f"mma_k{k}_f64", HOPPER + BLACKWELL, PURE, mma(f"m16n8k{k}", "f64.f64.f64.f64", g(0, 4), g(4, a), g(12, b)))
    for kind in ("e4m3", "e5m2"):
        # Hopper and later server GPUs convert such FP8 numbers to f16 first. So if the result is f16, their machine
        # code does not mix precisions.
        f16 = {tuple(ADA + CLIENT): "t11m11", tuple(HOPPER + SERVER): "t11m10"}
        row(f"mma_f32_{kind}", SINCE_ADA, FULL, mma("m16n8k32", f"f32.{kind}.{kind}.f32", f(0, 4), r(0, 4), r(8, 2)))
        for where, expected in f16.items():
            row(f"mma_f16_{kind}", list(where), expected,
                mma("m16n8k32", f"f16.{kind}.{kind}.f16", r(20, 2), r(0, 4), r(8, 2)))
    for kind in ("e4m3", "e2m1", "e3m2", "e2m3"):
        row(f"mma_f8f6f4_{kind}", CLIENT, FULL,
            f"mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.{kind}.{kind}.f32 "
            f"{f(0, 4)},{r(0, 4)},{r(8, 2)},{f(0, 4)};")


def scaled():
    zero = "%r12,{0,0},%r13,{0,0};"
    for kind, vector, shape, inputs, scale, sparse in (
            ("mxf8f6f4", 1, "m16n8k32", "e4m3", "ue8m0", "m16n8k64"),
            ("mxf4", 2, "m16n8k64", "e2m1", "ue8m0", "m16n8k128"),
            ("mxf4nvf4", 4, "m16n8k64", "e2m1", "ue4m3", "m16n8k128")):
        types = f"row.col.f32.{inputs}.{inputs}.f32.{scale} {f(0, 4)},{r(0, 4)}"
        head = f"sync.aligned.kind::{kind}.block_scale.scale_vec::{vector}X"
        row(f"mma_{kind}", CLIENT, FULL, f"mma.{head}.{shape}.{types},{r(8, 2)},{f(0, 4)},{zero}")
        row(f"mma_sp_{kind}", CLIENT, FULL,
            f"mma.sp::ordered_metadata.{head}.{sparse}.{types},{r(8, 4)},{f(0, 4)},%r15,0x0,{zero}")


def integers():
    for shape, a, b, d, where in (("m8n8k16", 1, 1, 2, ALL), ("m16n8k32", 4, 2, 4, SINCE_AMPERE)):
        for kind in ("s8", "u8"):
            row(f"mma_{shape}_{kind}", where, FULL, mma(shape, f"s32.{kind}.{kind}.s32", r(20, d), r(0, a), r(8, b)))
    row("mma_satfinite_s8", ALL, FULL, mma("m8n8k16", "satfinite.s32.s8.s8.s32", r(20, 2), r(0, 1), r(8, 1)))
    row("mma_s4", ALL, FULL, mma("m8n8k32", "s32.s4.s4.s32", r(20, 2), r(0, 1), r(8, 1)))
    row("mma_b1_xor", ALL, FULL, mma("m8n8k128", "s32.b1.b1.s32.xor.popc", r(20, 2), r(0, 1), r(8, 1)))
    row("mma_b1_and", SINCE_AMPERE, FULL, mma("m16n8k256", "s32.b1.b1.s32.and.popc", r(20, 4), r(0, 4), r(8, 2)))


def sparse():
    end = ",%r15,0x0"
    for before in (".sp", ".sp::ordered_metadata"):
        name = "sp_ordered" if "ordered" in before else "sp"
        row(f"mma_{name}_f16", SINCE_AMPERE, PURE,
            mma("m16n8k16", "f16.f16.f16.f16", r(20, 2), r(0, 2), r(8, 2), before, end))
        row(f"mma_{name}_f32", SINCE_AMPERE, FULL,
            mma("m16n8k16", "f32.f16.f16.f32", f(0, 4), r(0, 2), r(8, 2), before, end))
        row(f"mma_{name}_tf32", SINCE_AMPERE, FULL,
            mma("m16n8k16", "f32.tf32.tf32.f32", f(0, 4), r(0, 4), r(8, 4), before, end))
        row(f"mma_{name}_s8", SINCE_AMPERE, FULL,
            mma("m16n8k64", "s32.s8.s8.s32", r(20, 4), r(0, 4), r(8, 4), before, end))
        row(f"mma_{name}_e4m3", SINCE_ADA, FULL,
            mma("m16n8k64", "f32.e4m3.e4m3.f32", f(0, 4), r(0, 4), r(8, 4), before, end))


def fragments():
    head = "wmma.mma.sync.aligned.row.col."
    row("wmma_f32", ALL, FULL, f"{head}m16n16k16.f32.f32 {f(0, 8)},{r(0, 8)},{r(8, 8)},{f(0, 8)};")
    row("wmma_f16", ALL, PURE, f"{head}m16n16k16.f16.f16 {r(20, 4)},{r(0, 8)},{r(8, 8)},{r(20, 4)};")
    row("wmma_f16_of_f32", ALL, FULL, f"{head}m16n16k16.f16.f32 {r(20, 4)},{r(0, 8)},{r(8, 8)},{f(0, 8)};")
    row("wmma_bf16", SINCE_AMPERE, FULL, f"{head}m16n16k16.f32.bf16.bf16.f32 {f(0, 8)},{r(0, 4)},{r(8, 4)},{f(0, 8)};")
    row("wmma_tf32", SINCE_AMPERE, FULL, f"{head}m16n16k8.f32.tf32.tf32.f32 {f(0, 8)},{r(0, 4)},{r(8, 4)},{f(0, 8)};")
    row("wmma_f64", SINCE_AMPERE, PURE, f"{head}m8n8k4.f64.f64.f64.f64 {g(0, 2)},{g(4, 1)},{g(5, 1)},{g(0, 2)};")
    row("wmma_s8", ALL, FULL, f"{head}m16n16k16.s32.s8.s8.s32 {r(16, 8)},{r(0, 2)},{r(8, 2)},{r(16, 8)};")
    row("wmma_s4", ALL, FULL, f"{head}m8n8k32.s32.s4.s4.s32 {r(16, 2)},{r(0, 1)},{r(8, 1)},{r(16, 2)};")
    row("wmma_b1", ALL, FULL,
        f"wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {r(16, 2)},{r(0, 1)},{r(8, 1)},{r(16, 2)};")


def warpgroups():
    def one(name, expected, rest, modifier=""):
        row("wgmma_" + name, HOPPER, expected,
            f"wgmma.fence.sync.aligned;\nwgmma.mma_async{modifier}.sync.aligned.{rest};\n"
            "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;")

    for kind, k, end in (("f16", 16, ",0,0"), ("bf16", 16, ",0,0"), ("tf32", 8, "")):
        shape = f"m64n8k{k}.f32.{kind}.{kind} {f(0, 4)}"
        one(f"f32_{kind}", FULL, f"{shape},%d1,%d2,1,1,1{end}")
        one(f"f32_{kind}_registers", FULL, f"{shape},{r(0, 4)},%d2,1,1,1{end[:2]}")
    one("f16", PURE, f"m64n8k16.f16.f16.f16 {r(20, 2)},%d1,%d2,1,1,1,0,0")
    one("f16_registers", PURE, f"m64n8k16.f16.f16.f16 {r(20, 2)},{r(0, 4)},%d2,1,1,1,0")
    for d, registers_ in (("f32", f(0, 4)), ("f16", r(20, 2))):
        one(f"{d}_e4m3", FULL, f"m64n8k32.{d}.e4m3.e4m3 {registers_},%d1,%d2,1,1,1")
        one(f"{d}_e4m3_registers", FULL, f"m64n8k32.{d}.e4m3.e4m3 {registers_},{r(0, 4)},%d2,1,1,1")
    one("s8", FULL, f"m64n8k32.s32.s8.s8 {r(20, 4)},%d1,%d2,1")
    one("s8_registers", FULL, f"m64n8k32.s32.s8.s8 {r(20, 4)},{r(0, 4)},%d2,1")
    one("b1", FULL, f"m64n8k256.s32.b1.b1.and.popc {r(20, 4)},%d1,%d2,1")
    one("b1_registers", FULL, f"m64n8k256.s32.b1.b1.and.popc {r(20, 4)},{r(0, 4)},%d2,1")
    one("sp_f32", FULL, f"m64n8k32.f32.f16.f16 {f(0, 4)},%d1,%d2,%r15,0,1,1,1,0,0", ".sp")
    one("sp_f16", PURE, f"m64n8k32.f16.f16.f16 {r(20, 2)},%d1,%d2,%r15,0,1,1,1,0,0", ".sp")
    one("sp_tf32", FULL, f"m64n8k16.f32.tf32.tf32 {f(0, 4)},%d1,%d2,%r15,0,1,1,1", ".sp")
    one("sp_e4m3", FULL, f"m64n8k64.f32.e4m3.e4m3 {f(0, 4)},%d1,%d2,%r15,0,1,1,1", ".sp")
    one("sp_s8", FULL, f"m64n8k64.s32.s8.s8 {r(20, 4)},%d1,%d2,%r15,0,1", ".sp")
    # This PTX multiplies nothing, but ptxas generates a tensor-core instruction for the fence and the commit.
    row("wgmma_nothing", HOPPER, "t01m00",
        "wgmma.fence.sync.aligned;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;")


def tensor_memory():
    for group in (1, 2):
        for kind in ("f16", "tf32", "f8f6f4", "i8"):
            where = [100, 110] if kind == "i8" else SERVER
            for ws in ("", ".ws") if group == 1 else ("",):
                head, name = f"cta_group::{group}.kind::{kind} [%r1]", f"tcgen05{ws.replace('.', '_')}_{kind}_{group}"
                row(name, where, FULL, f"tcgen05.mma{ws}.{head},%d1,%d2,%r2,%q0;")
                row(name + "_memory", where, FULL, f"tcgen05.mma{ws}.{head},[%r3],%d2,%r2,%q0;")
                row(name + "_sp", where, FULL, f"tcgen05.mma{ws}.sp.{head},%d1,%d2,[%r3],%r2,%q0;")
        for kind, vector in (("mxf8f6f4", 1), ("mxf4", 2), ("mxf4nvf4", 4)):
            head = f"cta_group::{group}.kind::{kind}.block_scale.scale_vec::{vector}X [%r1],%d1,%d2"
            row(f"tcgen05_{kind}_{group}", SERVER, FULL, f"tcgen05.mma.{head},%r2,[%r4],[%r5],%q0;")
            row(f"tcgen05_sp_{kind}_{group}", SERVER, FULL, f"tcgen05.mma.sp.{head},[%r3],%r2,[%r4],[%r5],%q0;")


def scalars():
    for kind in ("f16", "bf16"):
        row(f"fma_f32_{kind}", BLACKWELL, "t00m11", f"fma.rn.f32.{kind} %f0,%h0,%h1,%f1;")
        row(f"fma_sat_f32_{kind}", BLACKWELL, "t00m11", f"fma.rz.sat.f32.{kind} %f0,%h0,%h1,%f1;")
        row(f"add_f32_{kind}", BLACKWELL, "t00m11", f"add.rn.f32.{kind} %f0,%h0,%f1;")
        row(f"sub_f32_{kind}", BLACKWELL, "t00m11", f"sub.rn.f32.{kind} %f0,%h0,%f1;")


def neither():
    """Adds instructions that belong to tensor cores but compute nothing, and arithmetic that does not use tensor
    cores."""
    row("ldmatrix", ALL, NONE, f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r(0, 4)},[%r5];")
    row("movmatrix", ALL, NONE, "movmatrix.sync.aligned.m8n8.trans.b16 %r0,%r1;")
    row("stmatrix", HOPPER + BLACKWELL, NONE, f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5],{r(0, 4)};")
    row("wmma_load", ALL, NONE, f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {r(0, 8)},[%d0];\n"
        f"wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%d0],{f(0, 8)};")
    row("tcgen05_alloc", SERVER, NONE, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r5],32;\n"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5,32;\n"
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;")
    row("tcgen05_ld", SERVER, NONE,
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0},[%r5];\ntcgen05.wait::ld.sync.aligned;")
    row("tcgen05_st", SERVER, NONE,
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5],{%r0};\ntcgen05.wait::st.sync.aligned;")
    row("tcgen05_cp", SERVER, NONE,
        "tcgen05.cp.cta_group::1.128x256b [%r5],%d1;\ntcgen05.shift.cta_group::1.down [%r5];")
    row("tcgen05_commit", SERVER, NONE, "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%d1];")
    row("dp4a", ALL, NONE, "dp4a.s32.s32 %r0,%r1,%r2,%r3;\ndp2a.lo.s32.s32 %r4,%r5,%r6,%r7;")
    row("fma_f16", ALL, NONE, "fma.rn.f16x2 %r0,%r1,%r2,%r3;\nfma.rn.f16 %h0,%h1,%h2,%h3;")
    row("fma_f32", ALL, NONE,
        "fma.rn.f32 %f0,%f1,%f2,%f3;\nfma.rz.sat.ftz.f32 %f4,%f5,%f6,%f7;\nadd.rm.f32 %f8,%f9,%f1;\n"
        "sub.f32 %f10,%f11,%f1;\nmul.f32 %f12,%f13,%f1;\nneg.f32 %f14,%f14;\nfma.rp.f32 %f15,%f14,%f14,0f3F800001;")
    row("fma_f64", ALL, NONE, "fma.rn.f64 %g0,%g1,%g2,%g3;\nadd.f64 %g4,%g5,%g6;")
    row("cvt", ALL, NONE,
        "cvt.f32.f16 %f0,%h0;\ncvt.rn.f16.f32 %h1,%f2;\nadd.f32 %f1,%f0,%f2;\nfma.rn.f32 %f4,%f0,%f1,%f4;")
    row("cvt_tf32", SINCE_AMPERE, NONE, "cvt.rna.tf32.f32 %r0,%f0;")
    row("wide", ALL, NONE, "mad.wide.s32 %d1,%r1,%r2,%d1;\nmul.wide.u32 %d2,%r3,%r4;\nst.global.u64 [%d0],%d1;\n"
        "st.global.u64 [%d0+8],%d2;")
    row("redux", SINCE_AMPERE, NONE, "redux.sync.add.s32 %r0,%r1,0xffffffff;")
    row("atomics", ALL, NONE, "atom.global.add.f32 %f0,[%d0],%f1;\nred.global.add.u32 [%d0],%r1;\nbar.sync 0;\n"
        "vote.sync.ballot.b32 %r2,%q0,0xffffffff;\nshfl.sync.bfly.b32 %r3,%r4,1,31,0xffffffff;\n"
        "prmt.b32 %r5,%r6,%r7,%r8;\nlop3.b32 %r9,%r10,%r11,%r12,0x96;\nshf.l.wrap.b32 %r13,%r14,%r15,%r16;")
    row("sine", ALL, NONE, "sin.approx.f32 %f0,%f1;\nex2.approx.f32 %f2,%f3;\nrcp.rn.f32 %f4,%f5;\n"
        "sqrt.rn.f32 %f6,%f7;\ndiv.rn.f32 %f8,%f9,%f10;\ndiv.u32 %r0,%r1,%r2;")


def kernel(name, body):
    """Returns a kernel with this body. It loads all registers from memory and stores them, so that ptxas removes
    nothing."""
    loads, stores = [], []
    for letter, kind, count, size, at in (("r", "b32", 32, 4, 0), ("f", "f32", 32, 4, 128), ("g", "f64", 16, 8, 512),
                                          ("h", "b16", 4, 8, 2512)):
        for i in range(count):
            loads.append(f"ld.global.{kind} %{letter}{i},[%d0+{at + size * i}];")
            stores.append(f"st.global.{kind} [%d0+{at + size * i}],%{letter}{i};")
    return (f".visible .entry {name}(.param .u64 to)\n{{\n.reg .b32 %r<32>;\n.reg .f32 %f<32>;\n.reg .b64 %d<4>;\n"
            ".reg .f64 %g<16>;\n.reg .b16 %h<4>;\n.reg .pred %q<2>;\n"
            "ld.param.u64 %d0,[to];\ncvta.to.global.u64 %d0,%d0;\n"
            "ld.global.b64 %d1,[%d0+700];\nld.global.b64 %d2,[%d0+708];\n" + "\n".join(loads) +
            f"\nsetp.eq.u32 %q0,%r1,%r2;\n{body}\n" + "\n".join(stores) + "\nret;\n}\n")


def main():
    target = sys.argv[1]
    architecture = int(target[3:].rstrip("af"))
    for family in (floats, scaled, integers, sparse, fragments, warpgroups, tensor_memory, scalars, neither):
        family()
    print(f".version 9.0\n.target {target}\n.address_size 64\n")
    for name, architectures, expected, body in ROWS:
        if architecture in architectures:
            print(kernel(f"{expected}_{name}", body))


main()
