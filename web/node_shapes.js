// Nodes as outlined shapes: one quad for each, and the distance to the outline computed in the fragment shader.
import { NodeProgram } from "sigma/rendering";
import { floatColor } from "sigma/utils";

/** In the order of the shader's cases, and of `SHAPES` in extensions/web/shapes.py. */
export const SHAPES = ["circle", "square", "diamond", "triangle", "hexagon", "page"];

const VERTEX = `
attribute vec2 a_position; attribute vec2 a_corner; attribute float a_size;
attribute vec4 a_color; attribute vec4 a_id; attribute float a_shape;
uniform mat3 u_matrix; uniform float u_sizeRatio; uniform float u_correctionRatio;
varying vec4 v_color; varying vec2 v_at; varying float v_shape; varying float v_pixel;
void main() {
  float size = a_size * u_correctionRatio / u_sizeRatio * 2.0;
  gl_Position = vec4((u_matrix * vec3(a_position + size * 1.5 * a_corner, 1)).xy, 0, 1);
  v_at = a_corner * 1.5;
  v_shape = a_shape;
  v_pixel = u_correctionRatio / size;
  #ifdef PICKING_MODE
  v_color = a_id;
  #else
  v_color = a_color;
  #endif
  v_color.a *= 255.0 / 254.0;
}`;

const FRAGMENT = `
precision highp float;
varying vec4 v_color; varying vec2 v_at; varying float v_shape; varying float v_pixel;
uniform vec4 u_inside;
float outline(vec2 at) {
  vec2 to = abs(at);
  if (v_shape < 0.5) return length(at) - 0.9;
  if (v_shape < 1.5) return max(to.x, to.y) - 0.8;
  if (v_shape < 2.5) return (to.x + to.y - 1.1) * 0.7071;
  if (v_shape < 3.5) return max(to.x * 0.866 + at.y * 0.5, -at.y) - 0.55;
  if (v_shape < 4.5) return max(to.x * 0.866 + to.y * 0.5, to.y) - 0.8;
  return max(to.x - 0.65, to.y - 0.9);
}
void main() {
  float distance = outline(v_at);
  #ifdef PICKING_MODE
  gl_FragColor = distance > 0.3 ? vec4(0.0) : v_color;
  #else
  float soft = v_pixel * 2.0;
  float within = 1.0 - smoothstep(-soft, soft, distance);
  float rim = smoothstep(-0.2 - soft, -0.2 + soft, distance);
  gl_FragColor = mix(u_inside, v_color, rim) * within;
  #endif
}`;

export const shapesOn = (inside) =>
  class extends NodeProgram {
    getDefinition() {
      return {
        VERTICES: 6,
        VERTEX_SHADER_SOURCE: VERTEX,
        FRAGMENT_SHADER_SOURCE: FRAGMENT,
        METHOD: WebGLRenderingContext.TRIANGLES,
        UNIFORMS: ["u_sizeRatio", "u_correctionRatio", "u_matrix", "u_inside"],
        ATTRIBUTES: [
          { name: "a_position", size: 2, type: WebGLRenderingContext.FLOAT },
          { name: "a_size", size: 1, type: WebGLRenderingContext.FLOAT },
          { name: "a_color", size: 4, type: WebGLRenderingContext.UNSIGNED_BYTE, normalized: true },
          { name: "a_id", size: 4, type: WebGLRenderingContext.UNSIGNED_BYTE, normalized: true },
          { name: "a_shape", size: 1, type: WebGLRenderingContext.FLOAT },
        ],
        CONSTANT_ATTRIBUTES: [{ name: "a_corner", size: 2, type: WebGLRenderingContext.FLOAT }],
        CONSTANT_DATA: [[-1, -1], [1, -1], [-1, 1], [-1, 1], [1, -1], [1, 1]],
      };
    }

    processVisibleItem(id, start, data) {
      this.array.set([data.x, data.y, data.size, floatColor(data.color), id, SHAPES.indexOf(data.shape)], start);
    }

    setUniforms(params, { gl, uniformLocations }) {
      gl.uniform1f(uniformLocations.u_sizeRatio, params.sizeRatio);
      gl.uniform1f(uniformLocations.u_correctionRatio, params.correctionRatio);
      gl.uniformMatrix3fv(uniformLocations.u_matrix, false, params.matrix);
      gl.uniform4f(uniformLocations.u_inside, ...inside, 1);
    }
  };
