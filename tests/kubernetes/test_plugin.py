#!/usr/bin/python3
"""test_plugin.py BUILD PROTO [WORD...]: tests virgate-device-plugin with a kubelet that the test plays."""

import contextlib
import os
import re
import signal
import socket
import statistics
import sys
import time

sys.dont_write_bytecode = True
from place import PROFILES, Container, Place, place_of, run_with_messages, variables_of, vgpus  # noqa: E402
from kubelet import Kubelet  # noqa: E402
from node import PATIENCE_S, wait_for  # noqa: E402


def test_each_profile_is_a_resource(node):
    with place_of(node, devices=2) as place:
        place.plugin()
        resources = place.kubelet.resources(2)
        assert sorted(resources) == ["virgate.dev/1g", "virgate.dev/2g"]
        ids = resources["virgate.dev/2g"].watch().healthy(4, 4)
        assert all(re.fullmatch(r"GPU-[-0-9a-f]{36}/[01]", name) for name in ids), ids
        resources["virgate.dev/1g"].watch().healthy(8, 8)
        options = resources["virgate.dev/1g"].options()
        assert options.pre_start_required and options.get_preferred_allocation_available
        wait_for(lambda: place.output().count("registered virgate.dev/") == 2, "two lines of output")


def test_a_container_gets_its_vgpu(node):
    with place_of(node) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        ids = device.watch().healthy(2, 2)
        allocation = device.allocate(ids[0])
        assert [one.name for one in allocation.cdi_devices] == ["virgate.dev/vgpu=profile:2g"]
        assert [(one.key, one.value) for one in allocation.annotations] == [
            ("cdi.k8s.io/virgate", "virgate.dev/vgpu=profile:2g")]
        uuid = ids[0].partition("/")[0]
        name = f"k8s.2g.{uuid[4:12]}.0"
        assert list(variables_of(allocation)) == ["VIRGATE_ALLOCATION"]
        assert re.fullmatch(f"{name}@{uuid}:[0-9a-f]{{32}}", allocation.envs[0].value), allocation
        container = Container(place, allocation).start()
        shown = vgpus(node)
        assert list(shown) == [name] and shown[name]["uuid"] == uuid, shown
        container.end()
        wait_for(lambda: not vgpus(node), "the end of the vGPU")


def test_allocate_takes_less_than_5_ms(node):
    with place_of(node, PROFILES + "[profile 128m]\nmemory = 128M\n") as place:
        place.plugin()
        device = place.kubelet.resources(3)["virgate.dev/128m"]
        ids = device.watch().healthy(32, 32)
        times = []
        for name in ids * 3:
            begun = time.monotonic()
            device.allocate(name)
            times.append((time.monotonic() - begun) * 1000)
        print(f"Allocate: least {min(times):.2f} ms, median {statistics.median(times):.2f} ms, "
              f"most {max(times):.2f} ms")
        # the median counts, because the longest time also depends on how busy this machine is
        assert statistics.median(times) < 5, times


def test_devices_follow_the_room(node):
    with place_of(node) as place:
        place.plugin()
        resources = place.kubelet.resources(2)
        large, small = resources["virgate.dev/2g"].watch(), resources["virgate.dev/1g"].watch()
        small.healthy(4, 4)
        large.healthy(2, 2)
        begun = time.monotonic()
        node.virgate("create", "other", "--memory", "2.5G")
        large.healthy(0, 2)
        small.healthy(1, 4)
        print(f"unhealthy {time.monotonic() - begun:.2f} s after the start of `virgate create`")
        node.virgate("rm", "other")
        large.healthy(2, 2)
        small.healthy(4, 4)
        node.virgate("drain", "0")
        large.healthy(0, 2)
        node.virgate("drain", "0", "--undo")
        large.healthy(2, 2)


def test_counts_are_right_from_allocation_to_end(node):
    with place_of(node) as place:
        place.plugin()
        resources = place.kubelet.resources(2)
        one, two = resources["virgate.dev/1g"], resources["virgate.dev/2g"]
        small, large = one.watch(), two.watch()
        ids = large.healthy(2, 2)
        first = two.allocate(ids[0])
        small.healthy(2, 4)  # the plugin reserves the room before the container starts
        large.healthy(2, 2)
        running = Container(place, first).start()
        wait_for(lambda: len(vgpus(node)) == 1, "the vGPU")
        taken = one.allocate(small.healthy(2, 4)[0])
        large.healthy(1, 2)  # the running one
        other = Container(place, taken).start()
        assert sum(vgpu["memory"] for vgpu in vgpus(node).values()) == 3 << 30
        running.end()
        other.end()
        wait_for(lambda: not vgpus(node), "the end of the vGPUs")
        small.healthy(4, 4)
        large.healthy(2, 2)


def test_a_short_container_leaves_no_reservation(node):
    with place_of(node) as place:
        place.plugin()
        resources = place.kubelet.resources(2)
        two, small = resources["virgate.dev/2g"], resources["virgate.dev/1g"].watch()
        for name in two.watch().healthy(2, 2) * 2:
            Container(place, two.allocate(name)).start().end()
        small.healthy(4, 4)


def test_two_allocations_do_not_get_the_last_room(node):
    with place_of(node) as place:
        place.plugin()
        resources = place.kubelet.resources(2)
        one, two = resources["virgate.dev/1g"], resources["virgate.dev/2g"]
        small, large = one.watch().healthy(4, 4), two.watch().healthy(2, 2)
        two.allocate(large[0])
        two.allocate(large[1])
        code, text = one.refused(one.allocate, small[0])
        assert code == "RESOURCE_EXHAUSTED", code
        assert "profile 1g does not fit on GPU 0: 0.0 MiB of 4.0 GiB" in text and "about to start" in text, text
        assert one.refused(one.start_container, small[0])[0] == "RESOURCE_EXHAUSTED"
        # a pod's init containers and its other containers may use the same device, so this is allowed
        two.allocate(large[0])
        two.start_container(large[0])


def test_reservations_end(node):
    with place_of(node) as place:
        place.plugin("--reserve", "1")
        resources = place.kubelet.resources(2)
        one, two = resources["virgate.dev/1g"], resources["virgate.dev/2g"]
        small, large = one.watch(), two.watch().healthy(2, 2)
        small.healthy(4, 4)
        first = two.allocate(large[0])
        two.allocate(large[1])
        small.healthy(4, 4)
        containers = [Container(place, one.allocate(name)).start() for name in small.healthy(4, 4)]
        # the reservation has ended, and the plugin has not permitted a start
        late = Container(place, first).run_hook(code=1)
        assert "has not permitted a start" in late.error, late.error
        assert two.refused(two.start_container, large[0])[0] == "RESOURCE_EXHAUSTED"
        for container in containers:
            container.end()


def test_the_daemon_refuses_a_start_without_room(node):
    with place_of(node) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        container = Container(place, device.allocate(device.watch().healthy(2, 2)[0])).prepare()
        # the daemon knows nothing of the plugin's reservation, so it admits this vGPU
        node.virgate("create", "other", "--memory", "3G")
        container.run_hook(code=1)
        assert "asked for 2.0 GiB, but 1.0 GiB is left" in container.error, container.error


def test_a_restarted_container_has_the_same_vgpu(node):
    with place_of(node) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        watch = device.watch()
        name = watch.healthy(2, 2)[0]
        allocation = device.allocate(name)
        for _ in range(3):  # the kubelet starts a container again with the same allocation
            container = Container(place, allocation).start()
            container.end()
        wait_for(lambda: not vgpus(node), "the end of the vGPU")
        watch.healthy(2, 2)


def test_an_error_of_a_gpu_makes_its_devices_unhealthy(node):
    with place_of(node, devices=2) as place:
        plugin = place.plugin("--ignore-xid", "64")
        resources = place.kubelet.resources(2)
        device = resources["virgate.dev/2g"]
        watch, small = device.watch(), resources["virgate.dev/1g"].watch()
        watch.healthy(4, 4)
        begun = time.monotonic()
        with open(f"{node.directory}/sim/xid", "a", encoding="utf-8") as file:
            # Xid 31 is a fault of a program, 64 is ignored by the option, and 79 means that the GPU is off the bus
            file.write("0 31\n0 64\n1 79\n")
        left = watch.healthy(2, 4)
        print(f"unhealthy {time.monotonic() - begun:.2f} s after the Xid")
        small.healthy(4, 8)
        lost = next(name for name in watch.latest if name not in left)
        code, text = device.refused(device.allocate, lost)
        assert code == "FAILED_PRECONDITION" and "GPU 1 has failed: it reported Xid 79" in text, (code, text)
        plugin.send_signal(signal.SIGHUP)
        place.kubelet.resources(2)["virgate.dev/2g"].watch().healthy(4, 4)


def test_the_plugin_registers_again_with_a_new_kubelet(node):
    with place_of(node) as place:
        plugin = place.plugin()
        place.kubelet.resources(2)
        for _ in range(3):
            place.restart_kubelet()
            resources = place.kubelet.resources(2)
            resources["virgate.dev/2g"].watch().healthy(2, 2)
        os.unlink(f"{place.directory}/virgate-2g.sock")  # by mistake
        assert list(place.kubelet.resources(1)) == ["virgate.dev/2g"]
        place.kubelet.stop()
        os.rename(place.directory, f"{place.directory}.old")
        os.mkdir(place.directory)
        place.kubelet = Kubelet(Place.messages, place.directory)
        place.kubelet.resources(2)["virgate.dev/1g"].watch().healthy(4, 4)
        assert plugin.poll() is None


def test_the_plugin_registers_again_when_its_list_is_not_watched(node):
    with place_of(node) as place:
        place.plugin()
        resources = place.kubelet.resources(2)
        resources["virgate.dev/1g"].watch().healthy(4, 4)
        watch, second = (resources["virgate.dev/2g"].watch() for _ in range(2))
        watch.healthy(2, 2)
        second.healthy(2, 2)
        second.stream.cancel()  # the other call of ListAndWatch still watches the list
        assert second.ended.wait(PATIENCE_S)
        place.kubelet.nothing_registers(6)  # the plugin would register again after 5 s
        watch.stream.cancel()
        assert watch.ended.wait(PATIENCE_S)
        name, again = place.kubelet.registered.get(timeout=PATIENCE_S)
        assert name == "virgate.dev/2g"
        again.watch().healthy(2, 2)
        node.virgate("create", "other", "--memory", "3G")
        again.watch().healthy(0, 2)
        assert "does not watch the devices any more; registers again" in place.output()


def test_a_plugin_that_was_killed_finds_its_containers(node):
    with place_of(node) as place:
        plugin = place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        ids = device.watch().healthy(2, 2)
        container = Container(place, device.allocate(ids[1])).start()
        node.virgate("create", "other", "--memory", "1G")
        plugin.kill()
        plugin.wait()
        place.plugin()
        watch = place.kubelet.resources(2)["virgate.dev/2g"].watch()
        assert watch.healthy(1, 2) == [ids[1]]
        container.end()
        watch.healthy(1, 2)


def test_the_end_of_the_plugin_removes_its_sockets(node):
    with place_of(node) as place:
        plugin = place.plugin()
        watch = place.kubelet.resources(2)["virgate.dev/2g"].watch()
        watch.healthy(2, 2)
        plugin.terminate()
        assert plugin.wait(PATIENCE_S) == 0
        assert os.listdir(place.directory) == ["kubelet.sock"], os.listdir(place.directory)
        assert watch.ended.wait(PATIENCE_S)


def test_no_daemon_means_no_healthy_devices(node):
    with place_of(node) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        watch = device.watch()
        name = watch.healthy(2, 2)[0]
        node.virgate("shutdown")
        watch.healthy(0, 2)
        code, text = device.refused(device.allocate, name)
        assert code == "UNAVAILABLE" and "daemon does not answer" in text, (code, text)
        node.virgate("devices")
        watch.healthy(2, 2)


def test_preferred_devices_are_on_the_fullest_gpu(node):
    with place_of(node, devices=2) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/1g"]
        watch = device.watch()
        ids = watch.healthy(8, 8)
        node.virgate("create", "other", "--memory", "2G", "--device", "1")
        healthy = watch.healthy(6, 8)
        fuller = [name for name in ids if name.partition("/")[0] ==
                  next(one for one in ids if one not in healthy).partition("/")[0]]
        assert device.prefer(ids)[0] in set(fuller) & set(healthy)
        assert device.prefer(ids, 2, must=[ids[0]])[0] == ids[0]
        assert len(set(device.prefer(ids, 3))) == 3
        assert device.prefer(["unknown"]) == [] and device.prefer([]) == []


def test_wrong_requests_are_refused(node):
    with place_of(node) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        ids = device.watch().healthy(2, 2)
        code, text = device.refused(device.allocate, "GPU-none/0")
        assert code == "NOT_FOUND" and 'no device "GPU-none/0"' in text, (code, text)
        code, text = device.refused(device.allocate, *ids)
        assert code == "INVALID_ARGUMENT" and "one device of virgate.dev/2g, and 2 were asked for" in text, (code, text)
        assert device.refused(device.allocate)[0] == "INVALID_ARGUMENT"
        assert device.refused(device.start_container, "a" * 5000)[0] == "NOT_FOUND"
        empty = Place.messages.Empty()
        assert device.refused(device.call, "Deallocate", empty, Place.messages.Empty)[0] == "UNIMPLEMENTED"
        for data in (b"\xff" * 20, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x7f", b"\x0a\x04\x0a\x02\xff\xff" * 1000):
            call = device.channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
            assert device.refused(call, data)[0] in ("INVALID_ARGUMENT", "NOT_FOUND"), data
        call = device.channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
        assert device.refused(call, b"\0" * (300 << 10))[0] == "RESOURCE_EXHAUSTED"
        device.allocate(ids[0])


def test_a_refused_registration_is_tried_again(node):
    with place_of(node) as place:
        place.kubelet.stop()
        place.kubelet = Kubelet(Place.messages, place.directory, refuse="resource name is taken")
        place.plugin()
        wait_for(lambda: "refused the registration: resource name is taken" in place.output(), "a message")
        place.kubelet.refuse = None
        place.kubelet.resources(2)


def hostile_connections(path):
    """Opens connections that send nothing, garbage, or half of the start of a gRPC connection. They stay open."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    settings = b"\0\0\0\4\0\0\0\0\0"
    for data in (b"", b"\0" * 100, os.urandom(4000), b"GET / HTTP/1.1\r\n\r\n", preface[:10], preface,
                 preface + settings, preface + settings + os.urandom(3000), preface + b"\xff" * 9,
                 preface + settings + b"\0\0\x10\1\4\0\0\0\1" + b"\x82" * 8):
        made = socket.socket(socket.AF_UNIX)
        made.connect(path)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            made.sendall(data)
        yield made


def test_garbage_and_half_open_clients_harm_nobody(node):
    with place_of(node) as place:
        plugin = place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        watch = device.watch()
        ids = watch.healthy(2, 2)
        opened = []
        for _ in range(8):  # more connections than are allowed
            opened += hostile_connections(f"{place.directory}/virgate-2g.sock")
        assert len(opened) == 80
        device.allocate(ids[0])
        node.virgate("create", "other", "--memory", "3G")
        watch.healthy(1, 2)  # the reserved one
        assert not watch.ended.is_set() and plugin.poll() is None
        for one in opened:
            one.close()


def test_half_open_clients_are_closed(node):
    with place_of(node) as place:
        place.plugin()
        place.kubelet.resources(2)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.settimeout(PATIENCE_S)
            silent.connect(f"{place.directory}/virgate-2g.sock")
            data = b"x"
            while data:  # reads the settings of the server until the server closes the connection
                data = silent.recv(4096)


def start_refused(place, *words):
    process = place.plugin(*words)
    code = process.wait(PATIENCE_S)
    return code, place.output()


def test_what_cannot_be_served_is_refused(node):
    with place_of(node) as place:
        code, text = start_refused(place, "--kubelet-dir", f"{node.directory}/none")
        assert code == 1 and "none cannot be used: No such file or directory; the kubelet makes this" in text, text
        code, text = start_refused(place, "3g")
        assert code == 1 and "virgate.conf has no section [profile 3g]; it has: 2g 1g" in text, text
        for words in (("--reserve", "x"), ("--reserve", "0"), ("--gpu-device", "first"), ("--ignore-xid", "-1"),
                      ("--wrong",)):
            code, text = start_refused(place, *words)
            assert code == 2 and words[0].lstrip("-") in text, text
        place.plugin("1g")
        assert list(place.kubelet.resources(1)) == ["virgate.dev/1g"]
        code, text = start_refused(place)
        assert code == 1 and "another virgate-device-plugin serves" in text, text
        place.write("[profile a]\nmemory = x\n")
        code, text = start_refused(place)
        assert code == 1 and "virgate.conf:2" in text, text
        place.write("")
        code, text = start_refused(place)
        assert code == 1 and "there is nothing to offer" in text, text


def test_a_vgpu_of_another_with_a_devices_name_is_not_counted(node):
    with place_of(node) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        watch = device.watch()
        ids = watch.healthy(2, 2)
        name = f"k8s.2g.{ids[0][4:12]}.0"
        node.virgate("create", name, "--memory", "64M")
        assert watch.healthy(1, 2) == [ids[1]]
        code, text = device.refused(device.allocate, ids[0])
        assert code == "FAILED_PRECONDITION" and f"the vGPU {name} is there already" in text, (code, text)
        node.virgate("rm", name)
        watch.healthy(2, 2)
        Container(place, device.allocate(ids[0])).start().end()


def test_names_that_kubernetes_does_not_allow_are_left_out(node):
    long = "p" * 45
    with place_of(node, f"[profile odd-]\nmemory = 1G\n[profile {long}]\nmemory = 1G\n[profile 1g]\nmemory = 1G\n"
                  ) as place:
        place.plugin()
        assert list(place.kubelet.resources(1)) == ["virgate.dev/1g"]
        assert "odd- is left out" in place.output() and f"{long} is left out" in place.output()


if __name__ == "__main__":
    run_with_messages(sys.modules[__name__])
