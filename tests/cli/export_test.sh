# poem export: what it writes and what it refuses. tests/export_onnx_test.cpp runs models in onnxruntime, and
# tests/browser/export_test.py opens the page.
source "$(dirname "$0")/common.sh"
write_flat_config flat.yaml
write_image_config image.yaml
small=(--set train.epochs=1 --set mining.select=32)
expect_ok train flat.yaml --out flat
expect_ok train image.yaml --out run "${small[@]}"
mkdir runtime
for file in ort.wasm.min.mjs ort-wasm-simd-threaded.mjs ort-wasm-simd-threaded.wasm; do echo "$file" >runtime/$file; done

# The same detector gives the same bytes, from its folder and from its file.
expect_ok export run --onnx a.onnx
expect_words "$logs/out" "a.onnx: 0.3 MB, images n x 3 x 16 x 16"
expect_ok export run/detector.safetensors --onnx b.onnx
cmp a.onnx b.onnx
expect_words a.onnx images logits features probability score verdict threshold '"mushroom"'
expect_ok export flat --onnx flat.onnx # not of images

expect_error a.onnx "exists already" "--force" -- export run --onnx a.onnx
cp flat.onnx a.onnx
expect_ok export run --onnx a.onnx --force
cmp a.onnx b.onnx
expect_error runtime "folder" -- export run --onnx runtime
expect_error nowhere -- export run --onnx nowhere/a.onnx
expect_error "--onnx: is missing" "--web" -- export run
expect_error missing "check the path" -- export missing --onnx new.onnx
sed 's/poem-detector-2/poem-detector-9/' run/detector.safetensors >newer.safetensors
expect_error newer.safetensors "format 'poem-detector-9'" "this poem reads poem-detector-2" -- export newer.safetensors --onnx new.onnx
head -c 2000 run/detector.safetensors >cut.safetensors
expect_error cut.safetensors -- export cut.safetensors --onnx new.onnx

# A score that needs gradients is refused with the names of those that can be exported.
expect_ok train image.yaml --out odin "${small[@]}" --set score=odin --set data.validation=0.5 --set mining.select=16
expect_error odin/detector.safetensors "score 'odin'" gradients msp reject_energy -- export odin --onnx new.onnx
expect_ok train image.yaml --out open "${small[@]}" --set data.validation=0
expect_error open/detector.safetensors "no threshold" data.validation -- export open --onnx new.onnx

# The page. Only a folder that an earlier export wrote is replaced.
expect_ok export run --web page --runtime runtime
expect_words "$logs/out" "page/index.html"
cmp page/detector.onnx a.onnx
expect_error page "--force" -- export run --web page --runtime runtime
expect_ok export run --web page --runtime runtime --force
expect_error run -- export run --web run --runtime runtime --force
expect_error node_modules/onnxruntime-web/dist ort.wasm.min.mjs "npm install onnxruntime-web" "--runtime" -- export run --web new
expect_error page/more.onnx "--web" -- export run --onnx page/more.onnx --web page --runtime runtime --force
expect_error "2 channels" -- export flat --web new --onnx new.onnx --runtime runtime
rm runtime/ort-wasm-simd-threaded.wasm
expect_error runtime ort-wasm-simd-threaded.wasm "--runtime" -- export run --web new --runtime runtime
