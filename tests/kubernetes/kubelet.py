"""Plays the kubelet's side of the device plugin API: a server on which plugins register, and a client of their
sockets."""

import concurrent.futures
import importlib
import os
import queue
import subprocess
import sys
import threading

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../exporter"))
from node import PATIENCE_S  # noqa: E402

PREFIX = "/v1beta1.DevicePlugin/"


def load_messages(proto, directory):
    """Generates Python classes from the .proto file of the API, and imports them."""
    subprocess.run(["protoc", f"--proto_path={os.path.dirname(proto)}", f"--python_out={directory}", proto], check=True)
    sys.path.insert(0, directory)
    return importlib.import_module("deviceplugin_pb2")


class Watch:
    """A call of ListAndWatch that stays open. It keeps the lists of devices that the plugin has sent."""

    def __init__(self, stream):
        self.stream, self.ended = stream, threading.Event()
        self.latest, self.count, self.changed = None, 0, threading.Condition()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for answer in self.stream:
                with self.changed:
                    self.latest = {device.ID: device.health == "Healthy" for device in answer.devices}
                    assert all(device.health in ("Healthy", "Unhealthy") for device in answer.devices)
                    self.count += 1
                    self.changed.notify_all()
        except grpc.RpcError:
            pass
        self.ended.set()

    def wait(self, condition, what):
        """Waits until the plugin has sent a list for which condition(list) is true, and returns that list."""
        with self.changed:
            if self.changed.wait_for(lambda: self.latest is not None and condition(self.latest), PATIENCE_S):
                return self.latest
        raise AssertionError(f"{what}: not within {PATIENCE_S} s; the list is {self.latest}")

    def healthy(self, number, of):
        """Waits until `number` of the plugin's `of` devices are healthy, and returns the ids of the healthy ones."""
        found = self.wait(lambda devices: len(devices) == of and sum(devices.values()) == number,
                          f"{number} of {of} healthy devices")
        return sorted(name for name, is_healthy in found.items() if is_healthy)


class Device:
    """A resource that a plugin has registered, with a connection to the plugin."""

    def __init__(self, messages, socket):
        self.messages = messages
        self.channel = grpc.insecure_channel(f"unix:{socket}")
        grpc.channel_ready_future(self.channel).result(PATIENCE_S)

    def call(self, method, request, answer):
        invoke = self.channel.unary_unary(PREFIX + method, request_serializer=type(request).SerializeToString,
                                          response_deserializer=answer.FromString)
        return invoke(request, timeout=PATIENCE_S)

    def options(self):
        return self.call("GetDevicePluginOptions", self.messages.Empty(), self.messages.DevicePluginOptions)

    def watch(self):
        invoke = self.channel.unary_stream(PREFIX + "ListAndWatch",
                                           request_serializer=self.messages.Empty.SerializeToString,
                                           response_deserializer=self.messages.ListAndWatchResponse.FromString)
        return Watch(invoke(self.messages.Empty()))

    def allocate(self, *ids):
        container = self.messages.ContainerAllocateRequest(devices_ids=ids)
        answer = self.call("Allocate", self.messages.AllocateRequest(container_requests=[container]),
                           self.messages.AllocateResponse)
        assert len(answer.container_responses) == 1
        return answer.container_responses[0]

    def prefer(self, available, size=1, must=()):
        container = self.messages.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size)
        answer = self.call("GetPreferredAllocation",
                           self.messages.PreferredAllocationRequest(container_requests=[container]),
                           self.messages.PreferredAllocationResponse)
        return list(answer.container_responses[0].deviceIDs)

    def start_container(self, *ids):
        self.call("PreStartContainer", self.messages.PreStartContainerRequest(devices_ids=ids),
                  self.messages.PreStartContainerResponse)

    def refused(self, function, *arguments):
        """Calls a function of the plugin, which must refuse. Returns the code and the text of the refusal."""
        try:
            function(*arguments)
        except grpc.RpcError as error:
            return error.code().name, error.details()
        raise AssertionError(f"{function.__name__}{arguments} was not refused")


class Kubelet:
    """Listens for registrations in a directory, as the kubelet does. At its start it removes all sockets there, also
    like the kubelet."""

    def __init__(self, messages, directory, refuse=None):
        self.messages, self.directory, self.refuse = messages, directory, refuse
        self.registered = queue.Queue()
        for name in os.listdir(directory):
            os.unlink(f"{directory}/{name}")
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        handler = grpc.unary_unary_rpc_method_handler(self.register, messages.RegisterRequest.FromString,
                                                      messages.Empty.SerializeToString)
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler}),))
        assert self.server.add_insecure_port(f"unix:{directory}/kubelet.sock")
        self.server.start()
        self.devices, self.latest = [], {}

    def register(self, request, context):
        """Handles a registration: connects to the plugin before it answers, as the kubelet does."""
        if self.refuse:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuse)
        assert request.version == "v1beta1", request.version
        device = Device(self.messages, f"{self.directory}/{request.endpoint}")
        options = device.options()
        assert options == request.options
        self.devices.append(device)
        self.latest[request.resource_name] = device
        self.registered.put((request.resource_name, device))
        return self.messages.Empty()

    def resources(self, count):
        """Waits for `count` registrations. Returns a device for each resource, by the name of the resource."""
        return dict(self.registered.get(timeout=PATIENCE_S) for _ in range(count))

    def nothing_registers(self, seconds):
        try:
            name = self.registered.get(timeout=seconds)[0]
        except queue.Empty:
            return
        raise AssertionError(f"{name} was registered again")

    def stop(self):
        for device in self.devices:
            device.channel.close()
        self.server.stop(None).wait()
