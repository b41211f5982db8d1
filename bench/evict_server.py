"""evict_server.py GIB SEED: a model server for bench_evict.py. Its weights are random bf16 matrices of that size and
seed. Prints "ready PORT" and answers GET /NUMBER over HTTP with a digest of what the whole model makes of input number
NUMBER."""

import hashlib
import http.server
import sys

import torch

WIDTH = 16384  # a layer has 512 MiB of weights
layers = []


@torch.inference_mode()
def answer(number):
    generator = torch.Generator(device="cuda").manual_seed(number)
    x = torch.randn(16, WIDTH, device="cuda", dtype=torch.bfloat16, generator=generator)
    for layer in layers:
        x = torch.nn.functional.normalize(x @ layer, dim=1) * WIDTH ** 0.5
    return hashlib.sha256(x.float().cpu().numpy().tobytes()).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = answer(int(self.path[1:])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    gib, seed = int(sys.argv[1]), int(sys.argv[2])
    generator = torch.Generator(device="cuda").manual_seed(seed)
    for _ in range(2 * gib):
        layers.append(torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16, generator=generator))
    torch.cuda.synchronize()
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    print("ready", server.server_port, flush=True)
    server.serve_forever()


main()
