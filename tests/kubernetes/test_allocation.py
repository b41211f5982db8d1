#!/usr/bin/python3
"""test_allocation.py BUILD PROTO [WORD...]: tests which containers the hook of the CDI device lets enter the vGPU of a
device."""

import os
import re
import sys
import time

sys.dont_write_bytecode = True
from place import Container, place_of, run_with_messages, vgpus  # noqa: E402
from node import wait_for  # noqa: E402


def refuse_allocation(place, allocation, value, reason):
    allocation.envs[0].value = value
    refused = Container(place, allocation).run_hook(code=1)
    assert reason in refused.error, refused.error
    assert not vgpus(place.node)


def test_a_forged_allocation_is_refused(node):
    with place_of(node, "[profile 2g]\nmemory = 2G\n[profile 2g.b]\nmemory = 1G\n") as place:
        place.plugin()
        resources = place.kubelet.resources(2)
        device, other = resources["virgate.dev/2g"], resources["virgate.dev/2g.b"]
        ids = device.watch().healthy(2, 2)
        allocation, value = device.allocate(ids[0]), other.allocate(other.watch().healthy(2, 4)[0]).envs[0].value
        name, uuid, token = re.fullmatch("(.*)@(.*):(.*)", allocation.envs[0].value).groups()
        device.start_container(ids[0])
        good, start = f"{name}@{uuid}:{token}", name[:-1]
        for wrong in ("x", f"@{uuid}:{token}", f"{name}@:{token}", f"k8s.1g.0.0@{uuid}:{token}", f"{name}@{uuid}",
                      f"{'k8s.2g.' + 'x' * 90}@{uuid}:{token}", f"{name}@GPU-none:{token}", value,
                      f"{start}@{uuid}:{token}", f"{start}0/../{name}@{uuid}:{token}", f"{name}x@{uuid}:{token}",
                      "k8s.2g.../../a.0@../../a:", f"k8s.2g.../../a..0@GPU-../../a.0:{token}"):
            refuse_allocation(place, allocation, wrong, "a container can have a device of one profile")
        for wrong in (f"{start}1@{uuid}:{token}", f"{name}@{uuid}:", f"{name}@{uuid}:{token[:-1]}", good + "0",
                      f"{name}@{uuid}:{'0' * 32}"):
            refuse_allocation(place, allocation, wrong, "which is no valid allocation")
        allocation.envs[0].value = good
        Container(place, allocation).start().end()


def test_the_allocation_of_an_earlier_pod_is_refused(node):
    with place_of(node) as place:
        place.plugin()
        resources = place.kubelet.resources(2)
        device, small = resources["virgate.dev/2g"], resources["virgate.dev/1g"].watch()
        name = device.watch().healthy(2, 2)[0]
        old = device.allocate(name)
        Container(place, old).start().end()
        small.healthy(4, 4)  # the first pod's vGPU and the reservation for it have ended
        new = device.allocate(name)
        device.start_container(name)
        refuse_allocation(place, old, old.envs[0].value, "which is no valid allocation")
        Container(place, new).start().end()


def test_a_device_that_the_kubelet_does_not_start_is_refused(node):
    """A pod keeps the variable of its device after its end. The next pod gets another device, but sets the old
    variable. The hook must refuse that."""
    with place_of(node) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        ids = device.watch().healthy(2, 2)
        old = device.allocate(ids[1])
        Container(place, old).start().end()
        wait_for(lambda: not vgpus(node), "the end of the vGPU")
        device.allocate(ids[0])
        device.start_container(ids[0])
        refuse_allocation(place, old, old.envs[0].value, "has not permitted a start")


def test_a_permission_is_for_one_start(node):
    with place_of(node) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        allocation = device.allocate(device.watch().healthy(2, 2)[0])
        running = Container(place, allocation).start()
        second = Container(place, allocation).run_hook(code=1)
        assert "has not permitted a start" in second.error, second.error
        running.end()


def test_a_permission_expires(node):
    with place_of(node) as place:
        place.plugin("--reserve", "1")
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        late = Container(place, device.allocate(device.watch().healthy(2, 2)[0])).prepare()
        (path,) = (name for name in os.listdir(f"{node.directory}/run/allocations") if name.endswith(".start"))
        with open(f"{node.directory}/run/allocations/{path}", encoding="utf-8") as file:
            end = int(file.read())
        wait_for(lambda: time.monotonic() * 1000 > end, "the end of the permission")
        late.run_hook(code=1)
        assert "has not permitted a start" in late.error, late.error


def test_the_token_of_a_pod_that_failed_to_start_is_refused(node):
    """A pod's container failed to restart, after the plugin had reserved the room for that. Then another pod gets the
    device."""
    with place_of(node) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        name = device.watch().healthy(2, 2)[0]
        old = device.allocate(name)
        Container(place, old).start().end()
        wait_for(lambda: not vgpus(node), "the end of the vGPU")
        device.start_container(name)
        new = device.allocate(name)
        # the old pod's permission to start has ended
        refuse_allocation(place, new, new.envs[0].value, "has not permitted a start")
        device.start_container(name)
        refuse_allocation(place, old, old.envs[0].value, "which is no valid allocation")
        Container(place, new).run_hook().end()


def test_the_token_of_an_earlier_pod_is_refused_while_its_vgpu_exists(node):
    with place_of(node) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        watch = device.watch()
        name = watch.healthy(2, 2)[0]
        old = device.allocate(name)
        running = Container(place, old).start()
        new = device.allocate(name)
        running.end()
        wait_for(lambda: not vgpus(node), "the end of the vGPU")
        device.start_container(name)
        refuse_allocation(place, old, old.envs[0].value, "which is no valid allocation")
        Container(place, new).run_hook().end()


def test_containers_of_a_pod_use_one_device_in_turn(node):
    with place_of(node) as place:
        plugin = place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        name = device.watch().healthy(2, 2)[0]
        allocations = [device.allocate(name) for _ in range(3)]
        plugin.kill()  # the token must stay valid when the plugin is killed
        plugin.wait()
        place.plugin()
        place.kubelet.resources(2)
        for allocation in allocations:
            Container(place, allocation).start().end()
            wait_for(lambda: not vgpus(node), "the end of the vGPU")
        (path, *others) = os.listdir(f"{node.directory}/run/allocations")
        assert not others and os.stat(f"{node.directory}/run/allocations/{path}").st_mode & 0o777 == 0o600
        assert os.stat(f"{node.directory}/run/allocations").st_mode & 0o777 == 0o700


def test_an_allocation_that_cannot_be_noted_is_refused(node):
    with place_of(node) as place:
        place.plugin()
        device = place.kubelet.resources(2)["virgate.dev/2g"]
        watch = device.watch()
        name = watch.healthy(2, 2)[0]
        with open(f"{node.directory}/run/allocations", "w", encoding="utf-8"):
            pass
        code, text = device.refused(device.allocate, name)
        assert code == "INTERNAL" and "cannot be noted beside the daemon's socket: Not a directory" in text, text
        os.unlink(f"{node.directory}/run/allocations")
        device.allocate(name)


if __name__ == "__main__":
    run_with_messages(sys.modules[__name__])
